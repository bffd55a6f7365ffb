// Brings everything that names each store up to the list of stores: the paths and peers of the package, the prompt of `nest add` and the
// table of the README. With --check it writes nothing, and prints the files that differ. What is in no list stays as it is.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import ts from 'typescript';
import { formatMarkdown } from '#markdown';

const at = (path) => new URL(`../${path}`, import.meta.url);
const read = (path) => readFileSync(at(path), 'utf8');
const LIBRARY = 'libs/distributed-lock';

/** @returns {Promise<typeof import('../libs/distributed-lock/src/stores.ts')>} the list itself, before there is a build */
export async function readStores() {
  const { outputText } = ts.transpileModule(read(`${LIBRARY}/src/stores.ts`), {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
  });
  return import(`data:text/javascript,${encodeURIComponent(outputText)}`);
}

const { STORES, OFFERED_STORES, importPathOf } = await readStores();
const WITH_PATH = STORES.filter(({ module }) => module !== 'index');

/** The files as they should be. */
export async function filesWithStores() {
  return {
    'tsconfig.json': edited('tsconfig.json', ({ compilerOptions: { paths } }) => {
      for (const it of WITH_PATH) paths[importPathOf(it)] = [`./${LIBRARY}/src/${it.module}.ts`];
    }),
    [`${LIBRARY}/package.json`]: edited(`${LIBRARY}/package.json`, addToManifest),
    [`${LIBRARY}/schematics/nest-add.schema.json`]: edited(
      `${LIBRARY}/schematics/nest-add.schema.json`,
      ({ properties: { store } }) => {
        store.enum = OFFERED_STORES.map(({ name }) => name);
        store['x-prompt'].items = OFFERED_STORES.map(({ name, nestAdd }) => ({
          value: name,
          label: `${name.padEnd(12)}${nestAdd.label}`,
        }));
      },
    ),
    'README.md': await formatMarkdown(read('README.md').replace(/^\| Store  [^]*?\n\n/m, tableOfStores())),
  };
}

/** A store needs no Nest, so that one file is for both formats. */
function addToManifest({ exports, typesVersions, peerDependencies, peerDependenciesMeta }) {
  for (const { name, peers, otherPeers } of WITH_PATH) {
    const [types, code] = [`./dist/${name}.d.cts`, `./dist/${name}.cjs`];
    exports[`./${name}`] = { types, default: code };
    typesVersions['*'][name] = [types];
    for (const [peer, range] of Object.entries({ ...peers, ...otherPeers })) {
      peerDependencies[peer] = range;
      peerDependenciesMeta[peer] = { optional: true };
    }
  }
}

function tableOfStores() {
  const rows = STORES.map((it) => [it.readme.call, `\`${importPathOf(it)}\``, it.maturity, it.readme.holds]);
  const lines = [['Store ', 'Import', 'Maturity', 'Locks hold'], ['---', '---', '---', '---'], ...rows];
  return `${lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('')}\n`;
}

function edited(path, edit) {
  const value = JSON.parse(read(path));
  const before = JSON.stringify(value);
  edit(value);
  // The formatter lays out what changed; a file that is right already stays as it is.
  return JSON.stringify(value) === before ? read(path) : `${JSON.stringify(value, null, 2)}\n`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const isCheck = process.argv.includes('--check');
  const files = Object.entries(await filesWithStores()).filter(([path, text]) => text !== read(path));
  for (const [path, text] of files) {
    if (isCheck) console.log(path);
    else writeFileSync(at(path), text);
  }
  if (!isCheck && files.length > 0) {
    spawnSync('npx', ['oxfmt', ...files.map(([path]) => path)], { cwd: at('.'), stdio: 'inherit' });
  }
}
