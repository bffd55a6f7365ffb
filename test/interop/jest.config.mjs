import config from '../jest.config.mjs';

const [, e2e] = config.projects;

/** Needs Java beside Node, so it is not a part of `npm test`. @type {import('jest').Config} */
export default {
  ...e2e,
  displayName: 'interop',
  testMatch: ['<rootDir>/test/interop/**/*.interop-spec.ts'],
  testPathIgnorePatterns: [],
  globalSetup: '<rootDir>/test/interop/support/global-setup.mjs',
  globalTeardown: undefined,
  // The tests measure how fast the two sides answer each other: files one after the other.
  maxWorkers: 1,
};
