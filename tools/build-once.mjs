// Builds the library and the flash sale, unless what is built is of the sources as they are: for the tests, the demo and
// all else that runs what is built. A build removes what was built before, while a demo may just be starting from it. So
// one that finds nothing to do touches nothing, and of two at once the second waits for the first.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** No whole folder of a package: tools leave files there for a moment, as a packed archive. */
const INPUTS = [
  'libs/distributed-lock/src',
  'libs/distributed-lock/schematics',
  'libs/distributed-lock/package.json',
  'libs/distributed-lock/tsconfig.lib.json',
  'apps/seckill/src',
  'apps/seckill/tsconfig.app.json',
  'package-lock.json',
  'tools/build-library.mjs',
  'tools/entry-points.mjs',
  'tools/nest-modules.mjs',
  'tsconfig.json',
  'nest-cli.json',
];
const OUTPUTS = ['libs/distributed-lock/dist', 'dist/library', 'dist/apps/seckill'];
const CACHE = join(ROOT, 'node_modules/.cache');
const BUILT = join(CACHE, 'built');
const LOCK = join(CACHE, 'build.lock');

mkdirSync(CACHE, { recursive: true });
if (!isBuilt()) {
  await lock();
  try {
    if (!isBuilt()) build();
  } finally {
    rmSync(LOCK, { force: true });
  }
}

function isBuilt() {
  if (!OUTPUTS.every((folder) => existsSync(join(ROOT, folder)))) return false;
  return existsSync(BUILT) && readFileSync(BUILT, 'utf8') === fingerprint();
}

/** A hash of the names, sizes and times of all inputs and outputs of a build. */
function fingerprint() {
  const hash = createHash('sha256');
  const add = (path) => {
    const { size, mtimeMs } = statSync(path);
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  };
  for (const path of [...INPUTS, ...OUTPUTS].map((name) => join(ROOT, name))) {
    if (!statSync(path).isDirectory()) add(path);
    else {
      const entries = readdirSync(path, { recursive: true, withFileTypes: true });
      for (const entry of entries) if (entry.isFile()) add(join(entry.parentPath, entry.name));
    }
  }
  return hash.digest('hex');
}

function build() {
  console.log('Building the library and the flash sale: some seconds, and only after a change …');
  // Before the build, so that one that fails or is killed is not taken for done.
  rmSync(BUILT, { force: true });
  const shell = process.platform === 'win32';
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: 'inherit', shell });
  if (status === 0) writeFileSync(BUILT, fingerprint());
  process.exitCode = status ?? 1;
}

/** A file that only one process can link; it holds the id of that process, which may have been killed. */
async function lock() {
  const own = `${LOCK}.${process.pid}`;
  writeFileSync(own, `${process.pid}`);
  try {
    await linkLock(own);
  } finally {
    rmSync(own, { force: true });
  }
}

async function linkLock(own) {
  for (let waits = 0; ; waits++) {
    try {
      return linkSync(own, LOCK);
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (!runs(Number(readOwner()))) rmSync(LOCK, { force: true });
    else {
      if (waits === 0) console.log('Waiting for another build …');
      await pause(100);
    }
  }
}

function readOwner() {
  try {
    return readFileSync(LOCK, 'utf8');
  } catch {
    return '';
  }
}

/** @param {number} pid */
function runs(pid) {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}
