import { fileURLToPath } from 'node:url';

/** Where the history of a trial is kept until the next one of its name. @param {string} kind @param {string} seed */
export function folderOf(kind, seed) {
  return fileURLToPath(new URL(`../node_modules/.cache/chaos/${kind}-${seed}`, import.meta.url));
}
