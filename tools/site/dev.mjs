// Serves the site and follows changes of the Markdown: npm run docs -- dev
import { watch } from 'node:fs';
import { createServer } from 'vitepress';
import { pageFiles } from './addresses.mjs';
import { fromRoot } from './places.mjs';
import { clearPages, writePages } from './stage/pages.mjs';

clearPages();
writePages();
const server = await createServer(fromRoot('tools/site'));
await server.listen();
server.printUrls();

let timer;
const folders = new Set(pageFiles().map((file) => fromRoot(file).replace(/[^/]+$/, '')));
for (const folder of folders) {
  watch(folder, (_event, file) => {
    if (!file?.endsWith('.md')) return;
    clearTimeout(timer);
    timer = setTimeout(writeAgain, 50); // editors write a file in several steps
  });
}

function writeAgain() {
  try {
    writePages();
  } catch (error) {
    console.error(error.message);
  }
}
