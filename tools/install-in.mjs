// Installs the packages of a folder that has its own, unless they are there already: node tools/install-in.mjs site
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL(`../${process.argv[2]}`, import.meta.url));
const wanted = `${folder}/package-lock.json`;
/** A copy of the lock file that was installed last. */
const installed = `${folder}/node_modules/.installed.json`;

const isInstalled = existsSync(installed) && readFileSync(installed).equals(readFileSync(wanted));
if (!isInstalled) {
  const quiet = ['--no-audit', '--no-fund', '--loglevel', 'error'];
  const args = ['ci', '--prefix', folder, '--prefer-offline', '--ignore-scripts', ...quiet];
  const shell = process.platform === 'win32';
  const { status } = spawnSync('npm', args, { stdio: 'inherit', shell });
  if (status === 0) copyFileSync(wanted, installed);
  process.exitCode = status ?? 1;
}
