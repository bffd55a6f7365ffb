// Writes the Lua scripts of the Redis store into one TypeScript module, with `--@include` resolved and comments left out:
// a published package, a bundle and both module systems then find them without reading files at run time.
import { readFileSync, writeFileSync } from 'node:fs';

const folder = new URL('../libs/distributed-lock/src/stores/redis/scripts/', import.meta.url);
const SCRIPTS = ['acquire', 'acquire-all', 'release', 'renew', 'renew-all', 'force', 'inspect'];

const read = (name) => readFileSync(new URL(`lua/${name}`, folder), 'utf8');

function camelCase(name) {
  return name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
}

function compact(source) {
  return source
    .replace(/^\s*--@include (\S+)$/gm, (_, file) => read(file))
    .split('\n')
    .map((line) => line.replace(/\s*--.*$/, '').trim())
    .filter((line) => line !== '')
    .join('\n');
}

export function embedLua() {
  const lines = SCRIPTS.map(
    (name) => `export const ${camelCase(name)}: string = ${JSON.stringify(compact(read(`${name}.lua`)))};\n`,
  );
  return `// Made from lua/*.lua by scripts/embed-lua.mjs (npm run lua); a test compares them. Do not edit.\n\n${lines.join('\n')}`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  writeFileSync(new URL('lua.generated.ts', folder), embedLua());
}
