import config from '../jest.config.mjs';

const [, e2e] = config.projects;

/** Needs the servers of these stores and the packages of this folder, so it is not a part of `npm test`. @type {import('jest').Config} */
export default {
  ...e2e,
  displayName: 'stores',
  testMatch: ['<rootDir>/test/**/*.stores-spec.ts'],
  globalSetup: undefined,
  globalTeardown: undefined,
  testTimeout: 30_000,
  maxWorkers: config.maxWorkers,
  testSequencer: config.testSequencer,
};
