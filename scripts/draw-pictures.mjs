// Draws the pictures of the docs that are no plots of the benchmark: `npm run docs:pictures`.
// Their figures are those of the code; test/docs/pictures compares the files with what is drawn.
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { defaultsInCode, drawTimes } from './pictures/times.mjs';

const IMAGES = new URL('../docs/images/', import.meta.url);

export const pictures = () => ({
  'times.svg': drawTimes(defaultsInCode()),
});

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const [file, svg] of Object.entries(pictures())) writeFileSync(new URL(file, IMAGES), svg);
}
