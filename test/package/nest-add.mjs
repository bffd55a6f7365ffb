// The lock in an app that `nest new` has just made, by `nest add` or by the README's commands, as a newcomer runs them.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { spawnGuarded } from '#processes';
import { until } from '#until';
import { freePort } from '../../tools/own-server/index.mjs';
import { installFromSource } from './from-source.mjs';

const START_MS = 30_000;
const FIRST_LOCK = new URL('../../docs/first-lock.md', import.meta.url);
const execFileAsync = promisify(execFile);

/**
 * Adds the lock to a fresh app of this CLI, tests, builds and runs it. Where `fromSource` is set, by the commands of the README,
 * and once more with the code of docs/first-lock.md; otherwise by `nest add` alone.
 */
export async function tryNestAdd({ newApp, name, folder, registry, redis, fromSource }) {
  const app = join(folder, name);
  const env = { ...process.env, REDIS_URL: redis.url };
  const run = async ([command, ...args], { cwd = app, more = {} } = {}) => {
    // Not execFileSync: the registry answers from this process.
    const { stdout, stderr } = await execFileAsync(command, args, {
      cwd,
      env: { ...env, ...more },
      maxBuffer: 2 ** 26,
    });
    return stdout + stderr;
  };
  const flags = ['--skip-git', '--skip-install', '--package-manager', 'npm', '--language', 'ts'];
  await run([...newApp, 'new', name, ...flags], { cwd: folder });
  await run(['npm', 'install', '--no-audit', '--no-fund', '--prefer-offline']);

  if (fromSource) await installFromSource(app);
  else await addTwice(app, (words) => run(words, { more: { npm_config_registry: registry.url } }));

  await run(['npm', 'run', 'test:e2e']);
  lockRoute(join(app, 'src/app.controller.ts'));
  await run(['npm', 'run', 'build']);
  await checkHello(app, env);

  if (!fromSource) return;
  const [, module] = /^```ts\n([^]*?)^```$/m.exec(readFileSync(FIRST_LOCK, 'utf8'));
  writeFileSync(join(app, 'src/app.module.ts'), module);
  await run(['npm', 'run', 'build']);
  await checkFirstLock(app, env);
}

/** By the CLI of the app; the second time there is nothing left to do. */
async function addTwice(app, run) {
  const nest = [process.execPath, join(app, 'node_modules/@nestjs/cli/bin/nest.js')];
  const add = (...args) => run([...nest, 'add', 'nestjs-distributed-lock', '--store', 'redis', ...args]);
  expectText(await add(), 'what it said', [
    'src/app.module.ts: AppModule imports DistributedLockModule with redisStore.',
    'src/main.ts calls enableShutdownHooks()',
    'package.json: ioredis',
  ]);
  const changed = sourcesOf(app);
  expectText(await add('--skip-install'), 'what it said the second time', [
    'src/app.module.ts registers DistributedLockModule already.',
    'Nothing to be done.',
  ]);
  if (sourcesOf(app) !== changed) throw new Error(`A second run changed the app:\n${sourcesOf(app)}`);
}

const sourcesOf = (app) =>
  ['src/app.module.ts', 'src/main.ts', 'package.json']
    .map((file) => readFileSync(join(app, file), 'utf8'))
    .join('');

function expectText(text, what, parts) {
  const missing = parts.filter((part) => !text.includes(part));
  if (missing.length > 0) throw new Error(`${what} lacks ${missing.join(', ')}:\n${text}`);
}

/** Locks the route that each new app has, and makes its controller tell of the end. */
function lockRoute(path) {
  const text = readFileSync(path, 'utf8')
    .replace(
      'import { AppService }',
      "import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';\n$&",
    )
    .replace('@Get()', "@Get()\n  @Locked('hello')")
    .replace('getHello(): string {', 'async getHello(@CurrentLock() lock: Lock): Promise<string> {')
    .replace(
      'return this.appService.getHello();',
      'return `${this.appService.getHello()} ${lock.fencingToken}`;',
    )
    .replace(
      /\}\s*$/,
      '\n  onApplicationShutdown(signal: string): void {\n    console.log(`closed by ${signal}`);\n  }\n}\n',
    );
  writeFileSync(path, text);
}

/** The route under the lock answers, and the app is told when it is stopped. */
async function checkHello(app, env) {
  const output = await runApp(app, env, async (url) => {
    const answer = await fetch(url);
    const text = await answer.text();
    if (answer.status !== 200 || !/^Hello World! \d+$/.test(text)) {
      throw new Error(`the locked route: ${answer.status} ${text}`);
    }
  });
  expectText(output, 'the log', ['closed by SIGTERM']);
}

/** The app of docs/first-lock.md: of two requests at once, one waits for the other. */
async function checkFirstLock(app, env) {
  await runApp(app, env, async (url) => {
    const began = performance.now();
    const ask = async () => (await fetch(`${url}/goods/42/purchase`, { method: 'POST' })).text();
    const answers = await Promise.all([ask(), ask()]);
    const tookMs = performance.now() - began;
    if (tookMs < 3900 || !answers.every((text) => /^42 was ours alone, under token \d+\n$/.test(text))) {
      throw new Error(`the first lock: ${JSON.stringify(answers)} after ${tookMs} ms`);
    }
  });
}

/** Stops the app after `check` and returns what it has printed. */
async function runApp(app, env, check) {
  const port = await freePort();
  const { child, exited } = spawnGuarded(process.execPath, [join(app, 'dist/main.js')], {
    env: { ...env, PORT: String(port) },
    stdio: 'pipe',
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (output += text));
  try {
    const url = `http://127.0.0.1:${port}`;
    const listens = () => fetch(url).catch(() => undefined);
    await until(async () => (await listens()) !== undefined || child.exitCode !== null, START_MS);
    await check(url);
    child.kill('SIGTERM');
    await exited;
    return output;
  } catch (error) {
    throw new Error(`${error.message}\n${output}`, { cause: error });
  } finally {
    child.kill('SIGKILL');
    await exited;
  }
}
