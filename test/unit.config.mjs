import config from './jest.config.mjs';

// Without a server and without a build: specs beside their sources need neither.
const { globalSetup: _setup, globalTeardown: _teardown, ...unit } = config.projects[0];

/** @type {import('jest').Config} */
export default {
  ...unit,
  testTimeout: config.testTimeout,
  maxWorkers: config.maxWorkers,
  workerIdleMemoryLimit: config.workerIdleMemoryLimit,
};
