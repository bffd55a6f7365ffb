import { fileURLToPath } from 'node:url';

/** Where the history of a trial is kept until the next one of its name. @param {{ store: string, kind: string, seed: string }} trial */
export function folderOf({ store, kind, seed }) {
  return fileURLToPath(new URL(`../../node_modules/.cache/chaos/${store}-${kind}-${seed}`, import.meta.url));
}

/** Where it is written for how long the machine of a process has slept, in ms. @param {string} history of that process */
export function sleptFile(history) {
  return `${history}.slept`;
}
