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
    { ...common, displayName: 'parts', testRegex: parts('stores'), testPathIgnorePatterns: [] },
  ],
};
