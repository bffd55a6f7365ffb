// npm run test:runtimes: suites of the core on newer versions of Node, and a sample of the package on Bun, each fetched from the
// package registry. npm run test:runtimes -- "Node 24": that one alone.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import './build-once.mjs';
import { cachedFolder } from '../tools/cached-folder/index.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const MACHINE = `${process.platform}-${process.arch}`;
const JEST = [
  '--disable-warning=ExperimentalWarning',
  '--experimental-vm-modules',
  'node_modules/jest/bin/jest.js',
];

/** What a runtime decides: promises and async contexts, timers, streams, decorators, sockets. One suite that notices each. */
const CORE = [
  'libs/distributed-lock/src/async-context/',
  'libs/distributed-lock/src/lock/lock.service.spec',
  'libs/distributed-lock/src/lock/lease/',
  'test/nest/context/strangers',
  'test/nest/edge/streams/methods',
  'test/nest/integration/locked-providers',
  'test/redis/conformance/redis-shared-tokens',
  'test/redis/conformance/node-redis',
];
// Each further process of Jest loads Nest once more.
const onNode = ['-c', 'test/jest.config.mjs', '--silent', '--maxWorkers', '2', ...CORE];

const RUNTIMES = {
  'Node 22': { package: `node-${MACHINE}@22`, file: 'bin/node', args: [...JEST, ...onNode] },
  'Node 24': { package: `node-${MACHINE}@24`, file: 'bin/node', args: [...JEST, ...onNode] },
  Bun: { package: `@oven/bun-${MACHINE}`, file: 'bin/bun', args: ['test/runtimes/sample.mjs'] },
};

/** @param {{ package: string, file: string }} runtime @returns {string | undefined} its command */
function fetchRuntime({ package: name, file }) {
  const [, bare] = /^(@?[^@]+)/.exec(name);
  const folder = cachedFolder(`runtime-${name.replace(/[@/]/g, '-')}`, (staging) => {
    const how = ['install', '--prefix', staging, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
    return spawnSync('npm', [...how, '--loglevel', 'error', name], { stdio: 'inherit' }).status === 0;
  });
  const command = folder && join(folder, 'node_modules', bare, file);
  return command && existsSync(command) ? command : undefined;
}

const wanted = process.argv.slice(2);
for (const [name, runtime] of Object.entries(RUNTIMES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const command = fetchRuntime(runtime);
  if (!command) {
    console.log(`${name}: not to be had for ${MACHINE}`);
    process.exitCode = 1;
    continue;
  }
  console.log(`\n== ${name}: ${spawnSync(command, ['--version'], { encoding: 'utf8' }).stdout.trim()}`);
  const { status } = spawnSync(command, runtime.args, { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
