import { spawnSync } from 'node:child_process';
import { delimiter, join } from 'node:path';

export const NO_CHROMIUM =
  'no Chromium: install one (apt-get install chromium), or set CHROMIUM_BIN to a Chromium or Chrome';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** @type {import('./index.d.mts').findChromium} */
export function findChromium() {
  const chosen = process.env.CHROMIUM_BIN;
  if (chosen) {
    if (!runs(chosen)) throw new Error(`CHROMIUM_BIN (${chosen}) is not a browser that runs here.`);
    return chosen;
  }
  const find = () => candidates().find(runs);
  return find() ?? (mayInstall() && install() ? find() : undefined);
}

function candidates() {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
}

/** Only where nobody's machine is changed by it. */
function mayInstall() {
  return process.env.CI === 'true' && process.getuid?.() === 0 && succeeds('apt-get', ['--version']);
}

/** Another process may be installing it, too. */
const WAITS = ['-o', 'DPkg::Lock::Timeout=300'];

function install() {
  const words = ['install', '-qq', '-y', '--no-install-recommends', 'chromium', 'fonts-dejavu-core'];
  const packages = () => succeeds('apt-get', [...WAITS, ...words]);
  return packages() || (succeeds('apt-get', ['update', '-qq']) && packages());
}

/** @param {string} command */
function runs(command) {
  return succeeds(command, ['--version'], 20_000);
}

/** @param {string} command @param {string[]} args @param {number} [timeout] */
function succeeds(command, args, timeout = 300_000) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  return spawnSync(command, args, { stdio: 'ignore', timeout, env }).status === 0;
}
