import stores from '../jest.config.mjs';

/** Runs on a Node that has SQLite. @type {import('jest').Config} */
export default {
  ...stores,
  displayName: 'sqlite',
  testMatch: ['<rootDir>/test/stores/sqlite/**/*.sqlite-spec.ts'],
};
