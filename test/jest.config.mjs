import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { ENTRY_POINTS } from '../tools/entry-points.mjs';
import { SLOW_LANE, TOGETHER } from './lanes.mjs';

const swc = {
  swcrc: false,
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: true },
    keepClassNames: true,
  },
  module: { type: 'es6' },
  sourceMaps: 'inline',
};

// Absolute: a relative rootDir inside "projects" would be resolved against the outer rootDir once more.
const rootDir = fileURLToPath(new URL('..', import.meta.url));

/** @type {import('jest').Config} */
const common = {
  rootDir,
  testEnvironment: '<rootDir>/test/support/node-environment.mjs',
  extensionsToTreatAsEsm: ['.ts'],
  // js before mjs: packages that offer both under one name are then one to those that require and those that import.
  moduleFileExtensions: ['ts', 'js', 'mjs', 'json', 'node'],
  transform: { '^.+\\.ts$': ['@swc/jest', swc] },
  moduleNameMapper: {
    ...Object.fromEntries(ENTRY_POINTS.map((it) => [`^${it.specifier}$`, `<rootDir>/${it.source}`])),
    '^fast-check$': '<rootDir>/test/support/fast-check.mjs',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  // The slash after "dist" matters: without it the pattern also swallows "distributed-lock".
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/libs/[^/]+/dist/'],
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',
  clearMocks: true,
};

const suitesOf = (paths, kind) => [`/test/(${paths.join('|')}).*\\.${kind}-spec\\.ts$`];
const slowLane = suitesOf(SLOW_LANE, 'e2e');

/** A lane runs these suites as parts of others. Jest runs one alone where the command line names it. */
export const parts = (kind) => suitesOf(Object.values(TOGETHER).flat(), kind);

/** @type {import('jest').Config} */
export default {
  rootDir,
  projects: [
    { ...common, displayName: 'unit', testMatch: ['<rootDir>/{libs,apps}/**/*.spec.ts'] },
    {
      ...common,
      displayName: 'e2e',
      testMatch: ['<rootDir>/test/**/*.e2e-spec.ts'],
      testPathIgnorePatterns: [...slowLane, ...parts('e2e')],
    },
    { ...common, displayName: 'slow', testRegex: slowLane, testPathIgnorePatterns: parts('e2e') },
    { ...common, displayName: 'parts', testRegex: parts('e2e') },
    {
      ...common,
      displayName: 'bullmq-5',
      testRegex: suitesOf(['bullmq/'], 'e2e'),
      moduleNameMapper: { ...common.moduleNameMapper, '^bullmq$': 'bullmq-5' },
      globals: { bullmqMajor: 5 },
    },
  ],
  // Five seconds would be a limit of the machine: this is to end a test that hangs, and nothing else.
  testTimeout: 30_000,
  // Two more than there are cores, as many suites mostly wait.
  maxWorkers: availableParallelism() + 2,
  testSequencer: '<rootDir>/test/support/longest-first.mjs',
  // A worker keeps something of each suite. To start another one costs as much CPU as a suite.
  workerIdleMemoryLimit: '1GB',
  coverageProvider: 'v8',
  coverageDirectory: 'coverage',
  collectCoverageFrom: ['{libs,apps}/*/src/**/*.ts', '!**/*.spec.ts', '!**/index.ts', '!**/main.ts'],
};
