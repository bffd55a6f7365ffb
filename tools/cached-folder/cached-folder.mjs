import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const CACHE = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url));

/** @type {import('./index.d.mts').cachedFolder} */
export function cachedFolder(name, fill) {
  const folder = join(CACHE, name);
  if (existsSync(folder)) return folder;
  const staging = `${folder}.${process.pid}`;
  mkdirSync(staging, { recursive: true });
  try {
    if (!fill(staging)) return undefined;
    rename(staging, folder);
    return folder;
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

/** Another process may have made the folder first. That folder stays. @param {string} staging @param {string} folder */
function rename(staging, folder) {
  try {
    renameSync(staging, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  }
}
