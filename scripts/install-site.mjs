// Installs what builds the site, unless that is there already: npm run docs, npm run docs:dev
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const SITE = fileURLToPath(new URL('../site', import.meta.url));
const wanted = `${SITE}/package-lock.json`;
/** A copy of the lock file that was installed last. */
const installed = `${SITE}/node_modules/.installed.json`;

const isInstalled = existsSync(installed) && readFileSync(installed).equals(readFileSync(wanted));
if (!isInstalled) {
  const quiet = ['--no-audit', '--no-fund', '--loglevel', 'error'];
  const args = ['ci', '--prefix', SITE, '--prefer-offline', '--ignore-scripts', ...quiet];
  const shell = process.platform === 'win32';
  const { status } = spawnSync('npm', args, { stdio: 'inherit', shell });
  if (status === 0) copyFileSync(wanted, installed);
  process.exitCode = status ?? 1;
}
