import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** @param {string} file of the repository */
export const fromRoot = (file) => `${root}${file}`;

/** The pages as VitePress reads them: links lead to pages of the site. */
export const PAGES = fromRoot('tools/site/generated');

/** The site. */
export const SITE = fromRoot('tools/site/dist');

/** Where the site will be, from SITE_URL: `https://owner.github.io/repository/`. Locally it is at the root of its server. */
export const SITE_URL = new URL(`${process.env['SITE_URL'] || 'http://localhost'}/`.replace(/\/+$/, '/'));

const { description } = JSON.parse(readFileSync(fromRoot('libs/distributed-lock/package.json'), 'utf8'));
export const ABOUT = description;

const { GITHUB_SERVER_URL = 'https://github.com', GITHUB_REPOSITORY } = process.env;
/** The repository whose workflow publishes the site. No other build knows one, and its pages link to no code. */
export const REPOSITORY = GITHUB_REPOSITORY ? `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}` : undefined;
