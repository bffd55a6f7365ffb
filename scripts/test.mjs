// npm test: the fast lane. npm test -- test/redis/faults: the suites whose path matches, in either lane.
// npm run test:slow: what the fast lane leaves out, as test/lanes.mjs lists it.
// The specs beside the sources are parts of the suites in test/beside-sources. By path or by test:unit each is a suite of its own.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import './build-once.mjs';

const [first = '', ...rest] = process.argv.slice(2);
const isSlow = first === '--slow';
const given = isSlow ? rest : process.argv.slice(2);
/** Jest takes a word that follows no option for a part of a path. */
const hasPaths = given.some((word) => !word.startsWith('-')) || given.includes('--selectProjects');
const fast = hasPaths ? [] : ['--selectProjects', 'e2e'];
const options = [
  '--disable-warning=ExperimentalWarning',
  '--experimental-vm-modules',
  'node_modules/jest/bin/jest.js',
  '-c',
  'test/jest.config.mjs',
  // Before the option, which takes every word that follows it for the name of a project.
  ...given,
  ...(isSlow ? ['--selectProjects', 'slow'] : fast),
];
const root = fileURLToPath(new URL('..', import.meta.url));
const { status } = spawnSync(process.execPath, options, { cwd: root, stdio: 'inherit' });
process.exitCode = status ?? 1;
