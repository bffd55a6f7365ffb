import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cachedFolder } from '../cached-folder/index.mjs';

const MACHINE = `${process.platform}-${process.arch}`;
/** The package of each, and its command there. */
const RUNTIMES = {
  'Node 22': { name: `node-${MACHINE}`, version: '22', file: 'bin/node' },
  'Node 24': { name: `node-${MACHINE}`, version: '24', file: 'bin/node' },
  Bun: { name: `@oven/bun-${MACHINE}`, version: 'latest', file: 'bin/bun' },
};

/** @type {import('./index.d.mts').fetchRuntime} */
export function fetchRuntime(runtime) {
  const { name, version, file } = RUNTIMES[runtime];
  const folder = cachedFolder(`runtime-${runtime.replace(' ', '-').toLowerCase()}`, (staging) => {
    const how = ['install', '--prefix', staging, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
    // The caller may print something for a program to read, so npm writes to stderr.
    const stdio = ['ignore', 2, 2];
    return spawnSync('npm', [...how, '--loglevel', 'error', `${name}@${version}`], { stdio }).status === 0;
  });
  const command = folder && join(folder, 'node_modules', name, file);
  return command && existsSync(command) ? command : undefined;
}
