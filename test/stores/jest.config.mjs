import config, { parts } from '../jest.config.mjs';

const [, e2e] = config.projects;
const { testMatch: _match, ...common } = { ...e2e, globalSetup: undefined, globalTeardown: undefined };

/** Needs the servers of these stores and the packages of this folder, so it is not a part of `npm test`. @type {import('jest').Config} */
export default {
  ...config,
  projects: [
    {
      ...common,
      displayName: 'stores',
      testMatch: ['<rootDir>/test/**/*.stores-spec.ts'],
      testPathIgnorePatterns: parts('stores'),
    },
    // Once on each server, for those who have changed no store: .ci/run.
    {
      ...e2e,
      displayName: 'contract',
      testMatch: [
        '<rootDir>/test/stores/*/contract.stores-spec.ts',
        '<rootDir>/test/stores/sqlite/sqlite.stores-spec.ts',
        '<rootDir>/test/redis/conformance/redis.e2e-spec.ts',
      ],
      testPathIgnorePatterns: [],
    },
    { ...common, displayName: 'parts', testRegex: parts('stores'), testPathIgnorePatterns: [] },
  ],
};
