// Draws the pictures of the docs that are no plots of the benchmark: `npm run generate`.
// Their figures are those of the code, of verification/bench/results/redis.md and of a recorded history of the simulation, and test/docs/pictures compares the files with them.
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { figuresInCode } from './pictures/figures.mjs';
import { drawHandOff } from './pictures/hand-off.mjs';
import { drawHistory, historyAsRecorded } from './pictures/history.mjs';
import { drawHotKey, hotKeyOnThePage } from './pictures/hot-key.mjs';
import { drawLife } from './pictures/life.mjs';
import { drawTimes } from './pictures/times.mjs';

const IMAGES = new URL('../docs/images/', import.meta.url);

/** @returns {Record<string, string>} SVG by file */
export function pictures(figures = figuresInCode()) {
  return {
    'hand-off.svg': drawHandOff(figures),
    'history.svg': drawHistory(historyAsRecorded()),
    'hot-key.svg': drawHotKey(hotKeyOnThePage()),
    'life-of-a-lock.svg': drawLife(figures),
    'times.svg': drawTimes(figures),
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const [file, svg] of Object.entries(pictures())) writeFileSync(new URL(file, IMAGES), svg);
}
