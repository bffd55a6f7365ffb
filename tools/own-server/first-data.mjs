import { execFile, spawnSync } from 'node:child_process';
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cachedFolder } from '../cached-folder/index.mjs';

/** @type {import('./index.d.mts').firstData} */
export async function firstData(folder, { version, user, make }) {
  const data = join(folder, 'data');
  const owner = user.uid ?? process.getuid?.() ?? '';
  const name = `data-${version.replaceAll(/[^\w.]+/g, '-')}-${owner}`;
  const own = async (place) => user.uid !== undefined && (await chown(place, user.uid, user.gid));
  await own(folder);
  const kept = cachedFolder(name, () => false);
  if (kept) {
    await promisify(execFile)('cp', ['-a', join(kept, 'data'), data]);
    return;
  }
  await mkdir(data);
  await own(data);
  await make(data);
  cachedFolder(name, (staging) => spawnSync('cp', ['-a', data, staging]).status === 0);
}
