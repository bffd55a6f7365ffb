// npm run generate [-- stores | lua | page | api | pictures | screenshot]: writes what is made from sources and kept in the repository. Tests
// compare each with its source, except for the screenshot, which needs a browser and is made only by name.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import './build-once.mjs';

const GENERATORS = {
  /** The manifest, tsconfig.json, the prompt of `nest add` and the README's table, from the list of stores. */
  stores: 'stores.mjs',
  /** lua.generated.ts, from *.lua. */
  lua: 'embed-lua.mjs',
  /** page.generated.ts, from admin/lock-admin.controller. */
  page: 'embed-admin-page.mjs',
  /** docs/api*.md, from the comments in the code. */
  api: 'api-reference.mjs',
  /** docs/images, from figures of the code and of the benchmark. */
  pictures: 'draw-pictures.mjs',
  /** docs/images/flash-sale.png, from the running flash sale. */
  screenshot: 'screenshot.mjs',
};

const [name, ...options] = process.argv.slice(2);
const names = name === undefined ? ['stores', 'lua', 'page', 'api', 'pictures'] : [name];
for (const each of names) {
  const file = GENERATORS[each];
  if (!file) throw new Error(`"${each}" is none of ${Object.keys(GENERATORS).join(', ')}.`);
  const script = fileURLToPath(new URL(file, import.meta.url));
  const { status } = spawnSync(process.execPath, [script, ...options], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
