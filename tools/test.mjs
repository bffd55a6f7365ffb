// npm test: the fast lane. npm test -- test/redis/faults: the suites whose path matches, in either lane.
// npm run test:slow: what the fast lane leaves out, as test/lanes.mjs lists it.
// npm run test:contract: the contract of stores, once on each real server.
// npm run test:stores: all of the stores on their real servers, built and compiled before.
// The suites in test/together run the specs beside the sources, and many suites, as parts. By path or by test:unit each part is a
// suite of its own.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import './build-once.mjs';

const LANES = {
  '--slow': ['test', 'slow', 'bullmq-5'],
  '--contract': ['test/stores', 'contract'],
  '--stores': ['test/stores', 'stores'],
};
const [first = '', ...rest] = process.argv.slice(2);
const [folder, ...lanes] = LANES[first] ?? ['test', 'e2e'];
const given = first in LANES ? rest : process.argv.slice(2);
/** Jest takes a word that follows no option for a part of a path. */
const hasPaths = given.some((word) => !word.startsWith('-')) || given.includes('--selectProjects');
const options = [
  '--disable-warning=ExperimentalWarning',
  '--experimental-vm-modules',
  'node_modules/jest/bin/jest.js',
  '-c',
  `${folder}/jest.config.mjs`,
  // Before the option, which takes every word that follows it for the name of a project.
  ...given,
  ...selected(),
];
/** By path a suite runs once: the contract's suites are also those of a project that is there for `npm run test:contract`. */
function selected() {
  if (lanes.includes('contract') || !hasPaths) return ['--selectProjects', ...lanes];
  return folder === 'test/stores' ? ['--selectProjects', 'stores', 'parts'] : [];
}

const root = fileURLToPath(new URL('..', import.meta.url));
const { status } = spawnSync(process.execPath, options, { cwd: root, stdio: 'inherit' });
process.exitCode = status ?? 1;
