// Builds the package: one file for each path that applications import, in both module formats, with its types. Code that several
// of them share is in dist/shared, so that a class is one, and a path that is not imported is not loaded.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';
import { ENTRY_POINTS } from './entry-points.mjs';

const path = (relative) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const LIBRARY = path('libs/distributed-lock');
const DIST = `${LIBRARY}/dist`;
/** Each source as a module of its own, as the compiler makes it. Not published. */
const MODULES = path('dist/library');

/** The terminal command, which is no path to import: ES modules only, without types. */
const COMMAND = { cli: `${MODULES}/admin/cli/main.js` };

/** Rooms of which several paths have a part. Those above know nothing of those below, and the first that matches counts. */
const SHARED = [
  ['core', /^(?!.*\/stores\/)/],
  ['stores', /\/stores\/(core|common|memory)\//],
  ['sessions', /\/stores\/session\//],
  ['sql', /\/stores\/sql\//],
];
const { peerDependencies } = JSON.parse(readFileSync(`${LIBRARY}/package.json`, 'utf8'));
const external = new RegExp(`^(node:|(${Object.keys(peerDependencies).join('|')})(/|$))`);

for (const folder of [DIST, MODULES]) rmSync(folder, { recursive: true, force: true });
compile('tsconfig.lib.json');
compile('tsconfig.schematics.json');
writeFileSync(`${DIST}/schematics/package.json`, '{"type":"commonjs"}');
for (const [format, extension] of [
  ['esm', 'js'],
  ['cjs', 'cjs'],
]) {
  await bundleCode(format, extension);
  await bundleTypes(extension.replace('js', 'ts'));
}

function compile(project) {
  const { status } = spawnSync('npx', ['tsc', '-p', `${LIBRARY}/${project}`], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

function inputs(extension) {
  return Object.fromEntries(ENTRY_POINTS.map(({ name, module }) => [name, path(module + extension)]));
}

/** Not minified: a stack trace shows the names and the lines of what runs. */
async function bundleCode(format, extension) {
  const input = { ...inputs('.js'), ...(format === 'esm' && COMMAND) };
  const bundle = await rolldown({ input, external, platform: 'node' });
  await bundle.write({
    dir: DIST,
    format,
    comments: false,
    // Jest has no import() for packages in CommonJS.
    dynamicImportInCjs: false,
    entryFileNames: `[name].${extension}`,
    chunkFileNames: `shared/[name].${extension}`,
    codeSplitting: { groups: SHARED.map(([name, test]) => ({ name, test, minShareCount: 2 })) },
  });
}

async function bundleTypes(extension) {
  const onwarn = (warning, warn) => warning.message.includes('private shared type') || warn(warning);
  const bundle = await rollup({ input: inputs('.d.ts'), external, plugins: [dts()], onwarn });
  await bundle.write({
    dir: DIST,
    manualChunks: (id, { getModuleInfo }) =>
      entriesOf(id, getModuleInfo).size > 1 ? SHARED.find(([, test]) => test.test(id))[0] : undefined,
    entryFileNames: `[name].d.${extension}`,
    chunkFileNames: `shared/[name].d.${extension}`,
  });
}

/** @returns {Set<string>} the entry points that have a part of this module */
function entriesOf(id, getModuleInfo, seen = new Set()) {
  if (seen.has(id)) return new Set();
  seen.add(id);
  const { isEntry, importers } = getModuleInfo(id);
  const above = importers.flatMap((importer) => [...entriesOf(importer, getModuleInfo, seen)]);
  return new Set(isEntry ? [id, ...above] : above);
}
