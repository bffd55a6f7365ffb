import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const PEERS = fileURLToPath(new URL('../../peers', import.meta.url));
const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));
const installed = (root, name) => ({
  root,
  name,
  manifest: readJson(`${root}/node_modules/${name}/package.json`),
});

/** The packages of npm among the libraries, by their columns, where they are installed. */
export const PACKAGES = {
  'this library': installed(ROOT, 'nestjs-distributed-lock'),
  redlock: installed(PEERS, 'redlock'),
  'redis-semaphore': installed(PEERS, 'redis-semaphore'),
  murlock: installed(PEERS, 'murlock'),
  'redlock-universal': installed(PEERS, 'redlock-universal'),
  verrou: installed(PEERS, '@verrou/core'),
};

const lockfile = readJson(`${PEERS}/package-lock.json`).packages;

/** The rows of the table of packages: for each library what its `package.json` says, and what its files weigh. */
export const PACKAGE_ROWS = {
  Version: (it) => it.manifest.version.replace(/^v/, ''),
  License: (it) => it.manifest.license,
  'Node, as `engines` says': (it) =>
    (it.manifest.engines?.node ?? 'not said').replace('>=', '≥ ').replace('  ', ' '),
  'ES modules': (it) => (hasBuild(it, 'import') ? 'yes' : 'no'),
  CommonJS: (it) => (hasBuild(it, 'require') ? 'yes' : 'no'),
  'Packages that come along': (it) => `${dependenciesOf(it.name).size}`,
  'All of them, kB on disk': (it) => `${sizeOf(it)}`,
};

/** Whether `condition` finds a file of its kind: `require` of Node 20 and later takes an ES module as well. */
function hasBuild({ root, name, manifest }, condition) {
  const folder = `${root}/node_modules/${name}`;
  const file = entryOf(manifest, condition);
  if (file.endsWith('.mjs')) return condition === 'import';
  if (file.endsWith('.cjs')) return condition === 'require';
  let type;
  for (let at = dirname(`${folder}/${file}`); type === undefined && at !== folder; at = dirname(at)) {
    const nearest = `${at}/package.json`;
    if (existsSync(nearest)) type = readJson(nearest).type ?? 'commonjs';
  }
  return ((type ?? manifest.type) === 'module') === (condition === 'import');
}

function entryOf({ exports, main = 'index.js' }, condition) {
  let entry = exports?.['.'] ?? exports ?? main;
  while (typeof entry === 'object') entry = entry[condition] ?? entry.default ?? main;
  return entry;
}

/** Folders that are installed for `name`, beside those of an application with Nest: peers are not counted either. */
function dependenciesOf(name) {
  const nest = ['@nestjs/common', '@nestjs/core', 'rxjs', 'reflect-metadata'];
  const there = new Set(nest.flatMap((it) => [`node_modules/${it}`, ...foldersOf(it)]));
  return new Set([...foldersOf(name)].filter((it) => !there.has(it)));
}

function foldersOf(name, found = new Set(), from = `node_modules/${name}`) {
  for (const it of Object.keys(lockfile[from]?.dependencies ?? {})) {
    const folder = lockfile[`${from}/node_modules/${it}`]
      ? `${from}/node_modules/${it}`
      : `node_modules/${it}`;
    if (found.has(folder)) continue;
    found.add(folder);
    foldersOf(name, found, folder);
  }
  return found;
}

/** In kB. Of this library what npm would publish, of the others what it has installed. */
function sizeOf({ root, name }) {
  const own = root === ROOT ? publishedBytes(name) : bytesOf(realpathSync(`${root}/node_modules/${name}`));
  const others = [...dependenciesOf(name)].map((it) => bytesOf(`${PEERS}/${it}`));
  return Math.round(others.reduce((sum, it) => sum + it, own) / 1000);
}

function publishedBytes(name) {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '-w', name];
  return JSON.parse(execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8' }))[0].unpackedSize;
}

function bytesOf(path) {
  const it = statSync(path, { throwIfNoEntry: false });
  if (!it) return 0;
  if (!it.isDirectory()) return it.size;
  return readdirSync(path).reduce(
    (sum, name) => sum + (name === 'node_modules' ? 0 : bytesOf(`${path}/${name}`)),
    0,
  );
}
