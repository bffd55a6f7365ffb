// Packs the library as npm would publish it, installs it into fresh apps, builds them, runs their unit tests and them. Then
// once more in apps that `nest new` makes, by `nest add` and by the commands that the README names.
// Prints one line per app; exits with 1 when one of them fails. node test/package/run.mjs your-app: that one alone.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { WebSocket } from 'ws';
import { spawnGuarded } from '#processes';
import { startRedisServer } from '#redis-server';
import { tryNestAdd } from './nest-add.mjs';
import { startRegistry } from './own-registry.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** The optional peers are in the second one only: the first must not need them. */
const APPS = [
  { name: 'nest-12-esm', hasPeers: false },
  { name: 'nest-11-commonjs', hasPeers: true },
];
/** Whose `nest new` makes the apps: ESM with Vitest, CommonJS with Jest. The command line of Nest 11 is installed here. */
const CLIS = [
  { name: 'nest-add-12', newApp: ['npx', '--yes', '--prefer-offline', '@nestjs/cli@^12.0.0'] },
  {
    name: 'your-app',
    newApp: [process.execPath, join(root, 'node_modules/@nestjs/cli/bin/nest.js')],
    fromSource: true,
  },
];
const names = process.argv.slice(2);
const unknown = names.filter((name) => ![...APPS, ...CLIS].some((app) => app.name === name));
if (unknown.length > 0) throw new Error(`There is no app ${unknown.join(', ')}.`);
const isWanted = ({ name }) => names.length === 0 || names.includes(name);
const START_MS = 30_000;
/** Each file and each kB is downloaded, unpacked and deployed. */
const MAX_FILES = 90;
const MAX_BYTES = 1_500_000;

const folder = mkdtempSync(join(tmpdir(), 'package-test-'));
const redis = await startRedisServer();
try {
  const tarball = await pack();
  // Side by side, as both mostly wait for npm. The apps of one kind lock the same keys, so they come one after the other.
  await Promise.all([tryApps(tarball), tryClis(tarball)]);
} finally {
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function pack() {
  const args = ['pack', '--json', '--pack-destination', folder, '-w', 'nestjs-distributed-lock'];
  const [{ filename, files, unpackedSize }] = JSON.parse(
    (await run('npm', args, root)).replace(/^[^[]*/, ''),
  );
  const strangers = files
    .map(({ path }) => path)
    .filter((path) => /\.spec\.|^src\/|\.tsbuildinfo$|\.map$/.test(path));
  if (strangers.length > 0) throw new Error(`The package ships ${strangers.join(', ')}.`);
  if (files.length > MAX_FILES || unpackedSize > MAX_BYTES)
    throw new Error(`The package has grown to ${files.length} files and ${unpackedSize} bytes.`);
  const library = join(root, 'libs/distributed-lock');
  const withLua = files
    .map(({ path }) => path)
    .filter((path) => readFileSync(join(library, path), 'utf8').includes('local owner, min_token'));
  if (withLua.length !== 1) throw new Error(`The Lua is not in one file, but in ${withLua.join(', ')}.`);
  return join(folder, filename);
}

async function tryClis(tarball) {
  const manifest = JSON.parse(readFileSync(join(root, 'libs/distributed-lock/package.json'), 'utf8'));
  const upstream = (await run('npm', ['config', 'get', 'registry'], folder)).trim();
  const registry = await startRegistry(tarball, manifest, upstream);
  try {
    for (const cli of CLIS.filter(isWanted)) {
      await report(cli.name, () => tryNestAdd({ ...cli, folder, registry, redis }));
    }
  } finally {
    await registry.stop();
  }
}

async function tryApps(tarball) {
  for (const { name, hasPeers } of APPS.filter(isWanted)) {
    const app = join(folder, name);
    await report(name, async () => {
      cpSync(fileURLToPath(new URL(name, import.meta.url)), app, { recursive: true });
      await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', tarball], app);
      await run('npm', ['run', '--silent', 'build'], app);
      await run('npm', ['test', '--silent'], app);
      await checkAnswers(app, hasPeers);
      if (hasPeers) await checkCommand(app);
    });
  }
}

async function report(name, attempt) {
  try {
    await attempt();
    console.log(`ok ${name}`);
  } catch (error) {
    console.error(`not ok ${name}: ${error.stdout ?? ''}${error.stderr ?? ''}${error.message}`);
    process.exitCode = 1;
  }
}

/**
 * Of three that ask at once for one item, one gets it; a fourth gets it afterwards, with a larger token. Where Terminus is
 * installed it finds the locks up, and where WebSockets are, of two messages at once one gets the item.
 */
async function checkAnswers(app, hasPeers) {
  const { child, exited } = spawnGuarded(process.execPath, [join(app, 'dist/main.js')], {
    env: { ...process.env, REDIS_URL: redis.url },
    stdio: 'pipe',
  });
  try {
    const address = await addressOf(child);
    // The first release that a server ever sees is sent twice, as it does not know the script yet.
    await (await fetch(`${address}/goods/1/purchase`, { method: 'POST' })).json();
    const url = `${address}/goods/42/purchase`;
    const ask = async () => {
      const answer = await fetch(url, { method: 'POST' });
      return { status: answer.status, body: await answer.json() };
    };
    const answers = await Promise.all([ask(), ask(), ask()]);
    const later = await ask();
    const statuses = answers.map(({ status }) => String(status)).sort();
    const first = answers.find(({ status }) => status === 201);
    if (statuses.join() !== '201,423,423' || later.status !== 201 || !(later.body.token > first.body.token)) {
      throw new Error(`answers: ${JSON.stringify([...answers, later])}`);
    }
    if (hasPeers) {
      const { details } = await (await fetch(`${address}/ready`)).json();
      if (details.locks.status !== 'up') throw new Error(`health: ${JSON.stringify(details)}`);
      await checkMessages(address);
    }
    child.kill('SIGTERM');
    const { code, signal } = await exited;
    if (code !== 0 && signal !== 'SIGTERM') throw new Error(`it ended with ${code ?? signal}`);
  } finally {
    child.kill('SIGKILL');
    await exited;
  }
}

async function checkMessages(address) {
  const ask = async () => {
    const socket = new WebSocket(address.replace('http', 'ws'));
    await once(socket, 'open');
    socket.send(JSON.stringify({ event: 'purchase', data: { id: '43' } }));
    const [message] = await once(socket, 'message', { signal: AbortSignal.timeout(START_MS) });
    socket.close();
    return JSON.parse(message);
  };
  const answers = await Promise.all([ask(), ask()]);
  const told = answers.map(({ event, data }) => String(data.code ?? event)).sort();
  if (told.join() !== 'LOCK_WAIT_TIMEOUT,purchased') throw new Error(`messages: ${JSON.stringify(answers)}`);
}

/** The command of the package shows a lock, here one as Redisson writes it. */
async function checkCommand(app) {
  const [key, owner] = ['goods:77', '6b0f2a54-3c1f-4a55-9e0c-3d2a6a0f8d11:1'];
  const client = new Redis(redis.url);
  try {
    await client.multi().hset(key, owner, 1).pexpire(key, 60_000).exec();
    const words = ['nestjs-distributed-lock', 'inspect', key, '--json', '--store', redis.url];
    const { holders } = JSON.parse(await run('npx', ['--no-install', ...words], app));
    if (holders.length !== 1 || holders[0].owner !== owner)
      throw new Error(`inspect: ${JSON.stringify(holders)}`);
  } finally {
    await client.del(key);
    client.disconnect();
  }
}

function addressOf(child) {
  return new Promise((resolve, reject) => {
    let output = '';
    const give = (reason) => reject(new Error(`The app ${reason}:\n${output}`));
    const timer = setTimeout(give, START_MS, 'did not start in time');
    child.once('exit', () => give('ended before it listened'));
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
        const url = /listens on (\S+)\n/.exec(output)?.[1];
        if (!url) return;
        clearTimeout(timer);
        resolve(url);
      });
    }
  });
}

/** Not execFileSync: the registry answers from this process. */
async function run(command, args, cwd) {
  const { stdout } = await promisify(execFile)(command, args, { cwd, maxBuffer: 64 * 2 ** 20 });
  return stdout;
}
