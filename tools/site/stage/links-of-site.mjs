import { statSync } from 'node:fs';
import { posix } from 'node:path';
import { addressOf } from '../addresses.mjs';
import { fromRoot, REPOSITORY } from '../places.mjs';
import { mapLinks } from './map-links.mjs';

/** Begins a link to a file of a repository whose address is not known. */
export const SOURCE = 'source:';

/**
 * Markdown for the site: a link to a page leads to that page, a link to any other file into the repository, if
 * its address is known. Links stay relative, so that they also work in the plain text of a page.
 *
 * @param {string} markdown @param {string} from the file of the repository that it is from
 * @param {{ isPage: (file: string) => boolean, dead: (link: string) => void }} site
 */
export function linksOfSite(markdown, from, { isPage, dead }) {
  return mapLinks(markdown, (link) => {
    if (/^(#|[a-z]+:)/.test(link)) return link;
    const [path, anchor = ''] = link.split(/(?=#)/);
    const file = posix.join(posix.dirname(from), decodeURI(path)).replace(/\/$/, '');
    return `${target(file)}${anchor}`;
  });

  /** @param {string} file */
  function target(file) {
    if (isPage(file)) return relative(addressOf(file));
    const found = statSync(fromRoot(file), { throwIfNoEntry: false });
    if (!found) dead(`${from}: ${file}`);
    if (file.startsWith('docs/images/')) return relative(file.slice('docs/'.length));
    if (REPOSITORY === undefined) return `${SOURCE}${file}`;
    return `${REPOSITORY}/${found?.isDirectory() ? 'tree' : 'blob'}/main/${file}`;
  }

  /** @param {string} address */
  function relative(address) {
    return posix.relative(posix.dirname(addressOf(from)), address);
  }
}
