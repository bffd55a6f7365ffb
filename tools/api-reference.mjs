// Writes the pages of the API reference, docs/api*.md; with --print, prints them as JSON.
import { writeFileSync } from 'node:fs';
import './build-once.mjs';

// It reads what the build has made.
const { apiReference } = await import('./api-reference/reference.mjs');
const pages = await apiReference();
if (process.argv.includes('--print')) process.stdout.write(JSON.stringify(pages));
else
  for (const [file, text] of Object.entries(pages))
    writeFileSync(new URL(`../docs/${file}`, import.meta.url), text);
