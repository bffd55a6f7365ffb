import { fileURLToPath } from 'node:url';

/** Where the history of a trial is kept until the next one of its name. @param {string} kind @param {string} seed */
export function folderOf(kind, seed) {
  return fileURLToPath(new URL(`../node_modules/.cache/chaos/${kind}-${seed}`, import.meta.url));
}

/** Where it is written for how long the machine of a process has slept, in ms. @param {string} history of that process */
export function sleptFile(history) {
  return `${history}.slept`;
}
