import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { spawnGuarded } from '#processes';
import { startRedisServer, type RedisServer } from '#redis-server';
import { until } from '#until';
import { freePort } from '../../tools/own-server/index.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(ROOT, `node_modules/.cache/first-lock-${process.pid}`);
const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8');
const blocks = (page: string, language: string): string[] =>
  [...read(page).matchAll(/^```(\w+)\n([^]*?)^```$/gm)]
    .filter(([, of]) => of === language)
    .map(([, , code]) => code!);

const page = 'docs/first-lock.md';
const [module = ''] = blocks(page, 'ts');
const [diff = ''] = blocks(page, 'diff');

/** As Nest makes it, with the line that `nest add` adds. */
const MAIN = `import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

const app = await NestFactory.create(AppModule);
app.enableShutdownHooks();
await app.listen(process.env.PORT ?? 3000);
`;

/** The code of the page after its change: each group of lines goes in the place of those it removes, or to the top. */
function changed(code: string): string {
  let result = code;
  for (const group of diff.split('\n\n')) {
    const lines = (sign: string) =>
      group
        .split('\n')
        .filter((line) => line.startsWith(sign))
        .map((line) => line.slice(1))
        .join('\n');
    expect(result).toContain(lines('-'));
    result = lines('-') === '' ? `${lines('+')}\n${result}` : result.replace(lines('-'), lines('+'));
  }
  return result;
}

/** Builds what the page says, in a folder from which the packages of this one are found. */
function build(name: string, appModule: string): string {
  const folder = join(FOLDER, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, 'main.ts'), MAIN);
  writeFileSync(join(folder, 'app.module.ts'), appModule);
  const compilerOptions = { rootDir: '.', outDir: 'dist', noEmit: false, declaration: false, paths: {} };
  // Both named: what is only imported counts as a package here, and is not compiled.
  const files = ['main.ts', 'app.module.ts'];
  const config = { extends: '../../../../tsconfig.json', compilerOptions, files, include: [] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const tsc = join(ROOT, 'node_modules/@typescript/native/bin/tsc');
  expect(spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' }).stdout).toBe('');
  return join(folder, 'dist/main.js');
}

interface Running extends ReturnType<typeof spawnGuarded> {
  purchase(id: number): Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly token: number;
  readonly tookMs: number;
}

const running: Running[] = [];

async function start(main: string): Promise<Running> {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port) };
  const { child, exited } = spawnGuarded(process.execPath, [main], { env, stdio: 'ignore' });
  const url = `http://127.0.0.1:${port}`;
  const purchase = async (id: number) => {
    const began = performance.now();
    const answer = await fetch(`${url}/goods/${id}/purchase`, { method: 'POST' });
    const text = await answer.text();
    const token = Number(/^\d+ was ours alone, under token (\d+)\n$/.exec(text)?.[1]);
    return { status: answer.status, text, token, tookMs: performance.now() - began };
  };
  const listens = () => fetch(url).catch(() => undefined);
  await until(async () => (await listens()) !== undefined || child.exitCode !== null, 20_000);
  expect(child.exitCode).toBeNull();
  const it = { child, exited, purchase };
  running.push(it);
  return it;
}

/** Of two requests for item 42 one must wait for the other. */
async function takeTurns(one: Running, other: Running): Promise<unknown> {
  const answers = await Promise.all([one.purchase(42), other.purchase(42)]);
  const [first, second] = answers.sort((a, b) => a.tookMs - b.tookMs) as [Answer, Answer];
  const statuses = [first.status, second.status];
  return { statuses, isTokenLarger: second.token > first.token, hasWaited: second.tookMs > 3900 };
}
const IN_TURN = { statuses: [201, 201], isTokenLarger: true, hasWaited: true };

describe('your first lock', () => {
  let redis: RedisServer;
  let client: Redis;
  let inMemory: string;
  let inRedis: string;
  let short: string;

  beforeAll(async () => {
    redis = await startRedisServer();
    client = new Redis(redis.url);
    inMemory = build('memory', module);
    const withRedis = changed(module).replace('redis://localhost:6379', redis.url);
    inRedis = build('redis', withRedis);
    const times = `${redis.url}'), keyPrefix: 'short:', watchdogTimeoutMs: 3000, waitMs: 500`;
    short = build('short', withRedis.replace(`${redis.url}')`, times));
  }, 60_000);
  afterEach(async () => {
    for (const { child } of running) child.kill('SIGTERM'); // a killed one could leave its last lock behind
    await Promise.all(running.splice(0).map(({ exited }) => exited));
  });
  afterAll(async () => {
    client?.disconnect();
    await redis?.stop();
    rmSync(FOLDER, { recursive: true, force: true });
  });

  it('is the one that the README shows, installed by its commands', () => {
    expect(blocks('README.md', 'ts')[0]).toBe(module);
    expect(blocks('README.md', 'console')[0]).toBe(blocks(page, 'console')[0]);
    const [, install] = blocks(page, 'sh');
    const ofReadme = blocks('README.md', 'sh')[0]!.replace('--store redis', '--store memory');
    expect(ofReadme.startsWith(install!)).toBe(true);
  });

  it('lets two requests for one item wait for each other, and those for two items not', async () => {
    const app = await start(inMemory);
    expect(await takeTurns(app, app)).toEqual(IN_TURN);
    const [one, other] = await Promise.all([app.purchase(42), app.purchase(43)]);
    expect(Math.max(one.tookMs, other.tookMs)).toBeLessThan(3900);
  }, 30_000);

  it('holds for two processes with the store of the page', async () => {
    const [one, other] = await Promise.all([start(inRedis), start(inRedis)]);
    expect(await takeTurns(one, other)).toEqual(IN_TURN);
  }, 30_000);

  it('is released by a process that is told to stop, after its request', async () => {
    const [one, other] = await Promise.all([start(inRedis), start(inRedis)]);
    const first = one.purchase(42);
    await until(async () => (await client.exists('goods:42')) === 1);
    one.child.kill('SIGINT');
    const second = await other.purchase(42);
    expect([(await first).status, second.status]).toEqual([201, 201]);
    expect(second.token).toBeGreaterThan((await first).token);
    await one.exited;
  }, 30_000);

  it('stays with a process that was killed until its lease is over', async () => {
    const [one, other] = await Promise.all([start(short), start(short)]);
    const first = one.purchase(42).catch(() => 'killed');
    await until(async () => (await client.exists('short:goods:42')) === 1);
    one.child.kill('SIGKILL');
    expect(await first).toBe('killed');
    expect(await other.purchase(42)).toMatchObject({
      status: 423,
      text: blocks(page, 'console')[2]!.split('\n')[1],
    });
    await until(async () => (await other.purchase(42)).status === 201, 10_000);
  }, 30_000);
});
