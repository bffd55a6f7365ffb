// Builds the package: one file for each path that applications import. What needs no Nest is in CommonJS alone, because Node, Jest and
// bundlers import that from both formats; so a lock, a store or an error is one, however it is imported. What needs Nest is in both
// formats, because Nest 12 is in ES modules, which Jest cannot require; in a process that loads both formats of a path, the first one is
// both. Code that several paths share is in dist/shared. The schematic of `nest add` is one file beside them.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import { ENTRY_POINTS } from './entry-points.mjs';
import { modulesOf, typesWithNest } from './nest-modules.mjs';

const path = (relative) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const LIBRARY = path('libs/distributed-lock');
const DIST = `${LIBRARY}/dist`;
/** Each source as a module of its own, as the compiler makes it. Not published. */
const MODULES = path('dist/library');

/** The terminal command, which is no path to import: ES modules only, without types. */
const COMMAND = { cli: `${MODULES}/admin/cli/main.js` };

/** Rooms of which several paths have a part. Those above know nothing of those below, and the first that matches counts. */
const SHARED = [
  ['base', /^(?!.*\/library\/stores\/)/],
  ['stores', /\/stores\/(core|common|memory)\//],
  ['sessions', /\/stores\/session\//],
  ['sql', /\/stores\/sql\//],
];
/** Nest tells modules and providers apart by their classes, so an application has to have one of each. */
const FIRST_FORMAT = `const loaded = new Map();
exports.firstFormat = (path, own) => {
  if (!loaded.has(path)) loaded.set(path, own);
  return loaded.get(path);
};
`;
const { peerDependencies } = JSON.parse(readFileSync(`${LIBRARY}/package.json`, 'utf8'));
const external = new RegExp(`^(node:|(${Object.keys(peerDependencies).join('|')})(/|$))`);

for (const folder of [DIST, MODULES]) rmSync(folder, { recursive: true, force: true });
compile();
const { withNest, rooms } = modulesOf(MODULES);
const isPlain = ({ module }) => !withNest.has(`${path(module)}.js`);
await bundlePlain();
writeFileSync(`${DIST}/shared/formats.cjs`, FIRST_FORMAT);
await bundleNest('cjs', 'cjs');
await bundleNest('esm', 'js');
await bundleTypes();
await bundle({ 'nest-add': `${LIBRARY}/schematics/nest-add.ts` }, [], {
  format: 'cjs',
  entryFileNames: '[name].cjs',
});

function compile() {
  // Several checkers would work on the same types, each for itself.
  const words = ['tsc', '-p', `${LIBRARY}/tsconfig.lib.json`, '--checkers', '1'];
  const { status } = spawnSync('npx', words, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

function inputs(entryPoints, extension) {
  return Object.fromEntries(entryPoints.map(({ name, module }) => [name, path(module + extension)]));
}

/**
 * Rolldown exports the names of a shared chunk by getters, because a binding might change. None of ours does, and a hundred getters take
 * two of the thirty ms of an import.
 */
function plainExports() {
  const getter =
    /Object\.defineProperty\(exports, ['"](\w+)['"], \{\s+enumerable: true,\s+get: function ?\(\) \{\s+return ([\w.]+);\s+\}\s+\}\);/g;
  return { name: 'plain-exports', renderChunk: (code) => code.replaceAll(getter, 'exports.$1 = $2;') };
}

/** Not minified: a stack trace shows the names and the lines of what runs. */
async function bundle(input, plugins, output) {
  const made = await rolldown({ input, external, platform: 'node', plugins: [...plugins, plainExports()] });
  const { output: files } = await made.write({
    dir: DIST,
    comments: false,
    // Jest has no import() for packages in CommonJS.
    dynamicImportInCjs: false,
    codeSplitting: { groups: SHARED.map(([name, test]) => ({ name, test, minShareCount: 2 })) },
    ...output,
  });
  return files;
}

/**
 * What needs no Nest: the code of its paths, and the rooms that the rest imports, in dist/shared. Node reads all of a file for the
 * names that it exports before an ES module may import it, so that a file with nothing but the names stands before each.
 */
async function bundlePlain() {
  const room = (name) => `room ${name}`;
  const sources = Object.fromEntries(
    Object.entries(rooms).map(([name, modules]) => [
      room(name),
      modules.map((module) => `export * from ${JSON.stringify(module)};`).join('\n'),
    ]),
  );
  const plugin = {
    name: 'rooms',
    resolveId: (id) => (id in sources ? id : undefined),
    load: (id) => sources[id],
  };
  const paths = inputs(ENTRY_POINTS.filter(isPlain), '.js');
  const input = { ...paths, ...Object.fromEntries(Object.keys(rooms).map((name) => [name, room(name)])) };
  const files = await bundle(input, [plugin], {
    format: 'cjs',
    entryFileNames: 'shared/[name].cjs',
    chunkFileNames: 'shared/[name].cjs',
  });
  for (const { isEntry, name, exports } of files) {
    if (!isEntry) continue;
    const isPath = name in paths;
    const names = exports.map((it) => `exports.${it} = code.${it};\n`).join('');
    const required = `const code = require('./${isPath ? 'shared/' : ''}${name}.cjs');\n`;
    writeFileSync(`${DIST}/${isPath ? name : namesOf(name)}.cjs`, required + names);
  }
}

function namesOf(room) {
  return `shared/${room}.names`;
}

/** What needs Nest, and the terminal command. The rooms that need none are imported from the files that are there already. */
async function bundleNest(format, extension) {
  const isOwn = (id) => withNest.has(id) || id.includes('/admin/cli/');
  const roomOf = new Map(
    Object.entries(rooms).flatMap(([name, modules]) => modules.map((module) => [module, name])),
  );
  const plugin = {
    name: 'plain',
    async resolveId(source, importer, options) {
      if (!importer) return undefined;
      const resolved = await this.resolve(source, importer, { ...options, skipSelf: true });
      if (!resolved || resolved.external || isOwn(resolved.id)) return resolved;
      return { id: `plain:${plainFile(resolved.id, roomOf, format)}`, external: true };
    },
    renderChunk: (code, { fileName }) =>
      code.replaceAll(/(["'])plain:([^"']+)\1/g, (_, quote, file) => {
        const from = relative(fileName.includes('/') ? 'shared' : '.', file);
        return quote + (from.startsWith('.') ? from : `./${from}`) + quote;
      }),
  };
  const paths = inputs(
    ENTRY_POINTS.filter((it) => !isPlain(it)),
    '.js',
  );
  const first = {
    name: 'first-format',
    renderChunk: (code, { name }) => (name in paths ? withFirstFormat(code, name, format) : undefined),
  };
  await bundle({ ...paths, ...(format === 'esm' && COMMAND) }, [plugin, first], {
    format,
    entryFileNames: `[name].${extension}`,
    chunkFileNames: `shared/[name].${extension}`,
    codeSplitting: { groups: [{ name: 'nest', test: /./, minShareCount: 2 }] },
  });
}

/** Exports what the first format of the path has, which the process may have loaded before. */
function withFirstFormat(code, name, format) {
  if (format === 'cjs') {
    return `${code}Object.assign(exports, require("./shared/formats.cjs").firstFormat("${name}", exports));\n`;
  }
  const list = /^export \{ (.+) \};$/m;
  const names = list
    .exec(code)[1]
    .split(', ')
    .map((it) => it.split(' as '));
  const own = names.map(([local, exported = local]) => `${exported}: ${local}`);
  const first = names.map(([local, exported = local]) => [exported, `first_${exported}`]);
  return `import { firstFormat } from "./shared/formats.cjs";
${code.replace(list, '')}const { ${first.map(([exported, local]) => `${exported}: ${local}`).join(', ')} } = firstFormat("${name}", { ${own.join(', ')} });
export { ${first.map(([exported, local]) => `${local} as ${exported}`).join(', ')} };
`;
}

function plainFile(id, roomOf, format) {
  const entry = ENTRY_POINTS.find(({ module }) => `${path(module)}.js` === id);
  if (entry) return `${entry.name}.cjs`;
  const room = roomOf.get(id);
  if (room === undefined) throw new Error(`${id} is in no room`);
  return format === 'esm' ? `${namesOf(room)}.cjs` : `shared/${room}.cjs`;
}

/** Types that need no Nest are one for both formats, as the code is. */
async function bundleTypes() {
  const onwarn = (warning, warn) => warning.message.includes('private shared type') || warn(warning);
  const nested = typesWithNest(MODULES);
  const made = await rollup({ input: inputs(ENTRY_POINTS, '.d.ts'), external, plugins: [dts()], onwarn });
  await made.write({
    dir: DIST,
    manualChunks: (id, { getModuleInfo }) => {
      const [entry, ...others] = entriesOf(id, getModuleInfo);
      if (others.length > 0) return SHARED.find(([, test]) => test.test(id))[0];
      return nested.has(entry) && !nested.has(id) ? nameOf(entry) : undefined;
    },
    entryFileNames: '[name].d.cts',
    chunkFileNames: 'shared/[name].d.cts',
    minifyInternalExports: false,
  });
  for (const entry of ENTRY_POINTS) {
    const { name, module } = entry;
    const file = `${DIST}/${name}.d.cts`;
    // Rollup imports a shared type by way of the root, which needs Nest.
    const types = readFileSync(file, 'utf8').replaceAll("from './index.cjs'", "from './shared/base.cjs'");
    writeFileSync(file, types);
    if (isPlain(entry)) continue;
    const isNested = nested.has(path(`${module}.d.ts`));
    writeFileSync(`${DIST}/${name}.d.ts`, isNested ? types : `export * from './${name}.cjs';\n`);
  }
}

/** The name of the path whose declarations are in this file. */
function nameOf(file) {
  return ENTRY_POINTS.find(({ module }) => path(`${module}.d.ts`) === file).name;
}

/** @returns {Set<string>} the entry points that have a part of this module */
function entriesOf(id, getModuleInfo, seen = new Set()) {
  if (seen.has(id)) return new Set();
  seen.add(id);
  const { isEntry, importers } = getModuleInfo(id);
  const above = importers.flatMap((importer) => [...entriesOf(importer, getModuleInfo, seen)]);
  return new Set(isEntry ? [id, ...above] : above);
}
