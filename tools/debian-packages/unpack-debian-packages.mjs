import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFolder } from '../cached-folder/index.mjs';

/** @type {import('./index.d.mts').unpackDebianPackages} */
export function unpackDebianPackages(name, packages) {
  const folder = cachedFolder(name, (staging) => fetchInto(staging, packages));
  return folder && { folder, env: withLibrariesOf(folder) };
}

/** @param {string} folder @param {readonly string[]} packages */
function fetchInto(folder, packages) {
  if (!succeeds('apt-get', ['--version']) || !succeeds('dpkg', ['--version'])) return false;
  const archives = join(folder, 'archives');
  const how = ['--download-only', '--reinstall', '-qq', '-y', '--no-install-recommends'];
  const where = ['-o', 'Debug::NoLocking=true', '-o', `Dir::Cache::archives=${archives}`];
  const download = () => succeeds('apt-get', ['install', ...how, ...where, ...packages]);
  mkdirSync(join(archives, 'partial'), { recursive: true });
  const mayUpdate = process.getuid?.() === 0;
  if (!download() && !(mayUpdate && succeeds('apt-get', ['update', '-qq']) && download())) return false;
  const files = readdirSync(archives).filter((file) => file.endsWith('.deb'));
  if (!files.every((file) => succeeds('dpkg', ['-x', join(archives, file), folder]))) return false;
  rmSync(archives, { recursive: true });
  return true;
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
