// node tools/runtimes.mjs: suites of the core on newer versions of Node, and a sample of the package on Bun, each fetched from the
// package registry. node tools/runtimes.mjs "Node 24": that one alone.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import './build-once.mjs';
import { ON_EACH_NODE } from '../test/lanes.mjs';
import { fetchRuntime } from './runtimes/index.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const JEST = [
  '--disable-warning=ExperimentalWarning',
  '--experimental-vm-modules',
  'node_modules/jest/bin/jest.js',
];

// Each further process of Jest loads Nest once more.
const onNode = ['-c', 'test/jest.config.mjs', '--silent', '--maxWorkers', '2', ...ON_EACH_NODE];

const RUNTIMES = {
  'Node 22': [...JEST, ...onNode],
  'Node 24': [...JEST, ...onNode],
  Bun: ['test/runtimes/sample.mjs'],
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in RUNTIMES));
if (unknown.length > 0) throw new Error(`There is no runtime ${unknown.join(', ')}.`);
for (const [name, args] of Object.entries(RUNTIMES)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const command = fetchRuntime(name);
  if (!command) {
    console.log(`${name}: not to be had for ${process.platform} on ${process.arch}`);
    process.exitCode = 1;
    continue;
  }
  console.log(`\n== ${name}: ${spawnSync(command, ['--version'], { encoding: 'utf8' }).stdout.trim()}`);
  const { status } = spawnSync(command, args, { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
