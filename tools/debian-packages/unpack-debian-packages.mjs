import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const CACHE = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url));

/** @type {import('./index.d.mts').unpackDebianPackages} */
export function unpackDebianPackages(name, packages) {
  const folder = join(CACHE, name);
  if (!existsSync(folder)) fetchInto(folder, packages);
  return existsSync(folder) ? { folder, env: withLibrariesOf(folder) } : undefined;
}

/** @param {string} folder @param {readonly string[]} packages */
function fetchInto(folder, packages) {
  if (!succeeds('apt-get', ['--version']) || !succeeds('dpkg', ['--version'])) return;
  const staging = `${folder}.${process.pid}`;
  const archives = join(staging, 'archives');
  const how = ['--download-only', '--reinstall', '-qq', '-y', '--no-install-recommends'];
  const where = ['-o', 'Debug::NoLocking=true', '-o', `Dir::Cache::archives=${archives}`];
  const download = () => succeeds('apt-get', ['install', ...how, ...where, ...packages]);
  mkdirSync(join(archives, 'partial'), { recursive: true });
  try {
    const mayUpdate = process.getuid?.() === 0;
    if (!download() && !(mayUpdate && succeeds('apt-get', ['update', '-qq']) && download())) return;
    const files = readdirSync(archives).filter((file) => file.endsWith('.deb'));
    if (!files.every((file) => succeeds('dpkg', ['-x', join(archives, file), staging]))) return;
    rmSync(archives, { recursive: true });
    // Another process may have been faster.
    if (!existsSync(folder)) renameSync(staging, folder);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

/** @param {string} folder @returns {NodeJS.ProcessEnv} */
function withLibrariesOf(folder) {
  const libraries = [join(folder, 'usr/lib'), join(folder, 'lib')]
    .filter((parent) => existsSync(parent))
    .flatMap((parent) => readdirSync(parent).map((entry) => join(parent, entry)))
    .filter((path) => path.includes('-linux-'));
  const path = [...libraries, process.env.LD_LIBRARY_PATH].filter(Boolean).join(':');
  return { ...process.env, LD_LIBRARY_PATH: path };
}

/** @param {string} command @param {string[]} args */
function succeeds(command, args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}
