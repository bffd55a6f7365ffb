// Writes the page for operators into one TypeScript module, with its style and its scripts in place: the page is one file then,
// and a published package, a bundle and both module systems find it without reading files at run time.
import { readFileSync, writeFileSync } from 'node:fs';

const folder = new URL('../libs/distributed-lock/src/admin/page/', import.meta.url);
/** Each after those that it imports. */
const SCRIPTS = ['dom', 'words', 'api', 'find', 'list', 'question', 'events', 'main'];

const read = (name) => readFileSync(new URL(name, folder), 'utf8');

/** The modules share one scope in the page, so that imports and exports fall away. */
function withoutModules(source) {
  return source.replace(/^import [^;]+;\n/gm, '').replace(/^export /gm, '');
}

export function embedAdminPage() {
  const [head, afterStyle] = read('page.html').split('<style></style>');
  const [body, tail] = afterStyle.split('<script type="module"></script>');
  const style = read('style.css');
  const script = SCRIPTS.map((name) => withoutModules(read(`${name}.js`))).join('\n');
  const lines = Object.entries({
    pageHead: head,
    pageStyle: style,
    pageBody: body,
    pageScript: script,
    pageTail: tail,
  }).map(([name, text]) => `export const ${name}: string = ${JSON.stringify(text)};\n`);
  return `// Made from page/* by tools/embed-admin-page.mjs (npm run generate); a test compares them. Do not edit.\n\n${lines.join('\n')}`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  writeFileSync(new URL('../page.generated.ts', folder), embedAdminPage());
}
