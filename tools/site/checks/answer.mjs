import { statSync } from 'node:fs';
import { join } from 'node:path';

/** Where a browser finds the site: no server is there, the files are. */
export const ORIGIN = 'http://site.test';

/**
 * Answers the requests of a browser from the files of the built site, as a host of static pages does.
 *
 * @param {import('playwright-core').BrowserContext} context @param {string} folder
 */
export function answerFrom(context, folder) {
  return context.route(`${ORIGIN}/**`, (route) => {
    const path = decodeURI(new URL(route.request().url()).pathname);
    const file = [path, `${path}.html`, `${path}index.html`].map((it) => join(folder, it)).find(isFile);
    return file ? route.fulfill({ path: file }) : route.fulfill({ status: 404 });
  });
}

/** @param {string} path */
const isFile = (path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
