// Writes the Lua scripts of the Redis store into one TypeScript module, with comments left out: a published package, a bundle and both
// module systems then find them without reading files at run time. A file that several scripts include (`--@include`) is there once.
import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'node:path';

const folder = new URL('../libs/distributed-lock/src/redis/scripts/', import.meta.url);
const SCRIPTS = ['acquire', 'attach', 'release', 'renew', 'renew-plain', 'force', 'inspect'];
const INCLUDE = /^\s*--@include (\S+)$/m;

const read = (name) => readFileSync(new URL(`lua/${name}`, folder), 'utf8');

/** The pieces of a script in order: the names of the included files stand at odd places, between its own lines. */
const piecesOf = (script) => read(`${script}.lua`).split(INCLUDE);

function camelCase(name) {
  return name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
}

const nameOf = (file) => camelCase(parse(file).name);

function compact(source) {
  const lines = source.split('\n').map((line) => line.replace(/\s*--.*$/, '').trim());
  return JSON.stringify(lines.filter((line) => line !== '').join('\n'));
}

export function embedLua() {
  const files = new Set(SCRIPTS.flatMap((script) => piecesOf(script).filter((_, i) => i % 2 === 1)));
  const included = Array.from(files, (file) => `const ${nameOf(file)} = ${compact(read(file))};\n`);
  const scripts = SCRIPTS.map((script) => {
    const pieces = piecesOf(script).map((piece, i) => (i % 2 === 1 ? nameOf(piece) : compact(piece)));
    const text = pieces.filter((piece) => piece !== '""').join(', ');
    return `export const ${camelCase(script)}: string = [${text}].join('\\n');\n`;
  });
  return `// Made from lua/*.lua by tools/embed-lua.mjs (npm run generate); a test compares them. Do not edit.\n\n${[...included, ...scripts].join('\n')}`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  writeFileSync(new URL('lua.generated.ts', folder), embedLua());
}
