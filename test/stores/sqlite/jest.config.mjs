import stores from '../jest.config.mjs';

const { testRegex: _regex, ...common } = stores.projects[1];

/** Runs on a Node that has SQLite. @type {import('jest').Config} */
export default {
  ...common,
  displayName: 'sqlite',
  testMatch: ['<rootDir>/test/stores/sqlite/**/*.sqlite-spec.ts'],
  testTimeout: stores.testTimeout,
};
