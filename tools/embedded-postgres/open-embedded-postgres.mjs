import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { PGlite } from '@electric-sql/pglite';

// V8 would compile Postgres a second time, for two seconds of two cores, to run it a fifth faster. Few sales last that long.
setFlagsFromString('--liftoff-only');

const PACKAGES = fileURLToPath(new URL('../../node_modules', import.meta.url));

/** @type {import('./index.d.mts').openEmbeddedPostgres} */
export async function openEmbeddedPostgres() {
  const file = await fileOfVersion();
  if (existsSync(file)) {
    const kept = new Blob([await readFile(file)], { type: 'application/x-gzip' });
    return PGlite.create({ loadDataDir: kept });
  }
  const postgres = await PGlite.create();
  await keep(await postgres.dumpDataDir('gzip'), file);
  return postgres;
}

async function fileOfVersion() {
  const manifest = await readFile(join(PACKAGES, '@electric-sql/pglite/package.json'), 'utf8');
  return join(PACKAGES, '.cache', `empty-postgres-${JSON.parse(manifest).version}.tar.gz`);
}

/** Under another name until it is whole, because others may look for it meanwhile. @param {Blob} data @param {string} file */
async function keep(data, file) {
  const staging = `${file}.${process.pid}`;
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(staging, new Uint8Array(await data.arrayBuffer()));
  await rename(staging, file);
}
