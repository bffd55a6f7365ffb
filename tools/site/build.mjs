// Makes the site in tools/site/dist from the Markdown of the repository, and fails on links that lead nowhere.
import { build } from 'vitepress';
import { deadLinks } from './checks/dead-links.mjs';
import { writePlainText } from './llms.mjs';
import { fromRoot, SITE, SITE_URL } from './places.mjs';
import { clearPages, writePages } from './stage/pages.mjs';

clearPages();
writePages();
await build(fromRoot('tools/site'));
writePlainText();
const dead = deadLinks(SITE, SITE_URL);
if (dead.length > 0) throw new Error(`Links that lead nowhere:\n${dead.join('\n')}`);
console.log('The site is in tools/site/dist. To look at it: npm run docs -- preview');
