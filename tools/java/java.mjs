import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const INSTALL_MS = 300_000;

/** @type {import('./index.d.mts').inHome} */
export function inHome(variable, program) {
  const home = process.env[variable];
  return home ? join(home, 'bin', program) : program;
}

/** @type {import('./index.d.mts').installJava} */
export function installJava() {
  if (!process.env.CI || process.getuid?.() !== 0) return false;
  const packages = ['openjdk-17-jdk-headless', 'maven'];
  const apt = (/** @type {string[]} */ ...args) =>
    spawnSync('apt-get', args, { timeout: INSTALL_MS }).status === 0;
  return apt('update', '-qq') && apt('install', '-y', '-qq', '--no-install-recommends', ...packages);
}
