import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const CACHE = fileURLToPath(new URL('../../node_modules/.cache/redis-server', import.meta.url));

/** @param {string} command @param {string[]} args */
const succeeds = (command, args) => spawnSync(command, args, { stdio: 'ignore' }).status === 0;

/** A server unpacked earlier, with the libraries that came with it. */
export function unpackedServer() {
  const command = join(CACHE, 'usr/bin/redis-server');
  if (!existsSync(command)) return undefined;
  const libraries = [join(CACHE, 'usr/lib'), join(CACHE, 'lib')]
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
    .filter((folder) => folder.includes('-linux-'));
  const path = [...libraries, process.env.LD_LIBRARY_PATH].filter(Boolean).join(':');
  return { command, env: { ...process.env, LD_LIBRARY_PATH: path } };
}

/**
 * Downloads the distribution's packages and unpacks them below node_modules/.cache. Needs no root and installs nothing;
 * only empty package lists need root once.
 */
export function unpackDebianPackages() {
  if (!succeeds('apt-get', ['--version']) || !succeeds('dpkg', ['--version'])) return;
  const staging = `${CACHE}.${process.pid}`;
  const archives = join(staging, 'archives');
  const how = ['--download-only', '--reinstall', '-qq', '-y', '--no-install-recommends'];
  const where = ['-o', 'Debug::NoLocking=true', '-o', `Dir::Cache::archives=${archives}`];
  const download = () => succeeds('apt-get', ['install', ...how, ...where, 'redis-server', 'redis-tools']);
  mkdirSync(join(archives, 'partial'), { recursive: true });
  try {
    const mayUpdate = process.getuid?.() === 0;
    if (!download() && !(mayUpdate && succeeds('apt-get', ['update', '-qq']) && download())) return;
    const packages = readdirSync(archives).filter((file) => file.endsWith('.deb'));
    if (!packages.every((file) => succeeds('dpkg', ['-x', join(archives, file), staging]))) return;
    rmSync(archives, { recursive: true });
    rmSync(CACHE, { recursive: true, force: true });
    renameSync(staging, CACHE);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}
