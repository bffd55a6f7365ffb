import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { startRedisServer } from '#redis-server';
import type { JavaService } from '../../verification/interop/index.mjs';
import { ownServer } from '../support/own-server.js';

const BENCH = new URL('../../verification/bench/src/', import.meta.url);
/** The second one would work for seconds at code that runs for a part of one. */
const FIRST_COMPILER_ALONE = '-XX:TieredStopAtLevel=1';
const MAIN = fileURLToPath(new URL('main.mjs', BENCH));

jest.setTimeout(120_000);

/** What the benchmark prints, on both streams. */
async function runBench(args: readonly string[]): Promise<string> {
  const all = [MAIN, '--seconds', '0.2', '--rounds', '1', ...args];
  const env = { ...process.env, JAVA_TOOL_OPTIONS: FIRST_COMPILER_ALONE };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, all, { env });
  return stdout + stderr;
}

const given = process.env['INTEROP_JAVA'];
const java = given ? (JSON.parse(given) as JavaService) : undefined;
const describeWithJava = java ? describe : describe.skip;

describeWithJava('Redisson in the benchmark', () => {
  const server = ownServer(startRedisServer);
  let workers: readonly Worker[];
  let worker: Worker;
  let other: Worker;

  /** The fair lock, as both processes then have their turns; the plain one takes part below. */
  beforeAll(async () => {
    const { WorkerProcess } = await import(new URL('measure/worker-process.mjs', BENCH).href);
    const { command, jar } = java as JavaService;
    const start = (): Worker =>
      new WorkerProcess([command, FIRST_COMPILER_ALONE, '-cp', jar, 'interop.Contestant', 'fair']);
    workers = [worker, other] = [start(), start()];
    await Promise.all(workers.map((one) => one.ask('open', { url: server.url })));
  });
  afterAll(async () => {
    for (const one of workers ?? []) one.kill();
  });

  it('is a line of the table, beside which ours is told without a limit', async () => {
    const printed = await runBench(['--only', 'hot1', '--peers', 'redisson']);
    expect(printed).toMatch(/^ {2}Redisson [\d.]+ \(Java\) +\d/m);
    expect(printed).toMatch(/^ +hot1: withLock, times Redisson: [\d.]+$/m);
    expect(printed).not.toContain('times the best peer');
    expect(printed).not.toContain('Redisson is left out');
  });

  it('counts each turn of each thread, and its wait, once', async () => {
    const task = { callers: 4, keys: ['turns'], ms: 500, workMs: 1, graceMs: 10_000 };
    let answer = await worker.ask('turns', task);
    // A JVM that has just begun may need longer for its first turn.
    while (sum(answer.perCaller) === 0) answer = await worker.ask('turns', task);
    const inTime = sum(answer.perCaller);
    expect(answer).toMatchObject({ ms: 500, failures: {}, unfinished: 0, strayErrors: 0 });
    expect(answer.perCaller).toHaveLength(4);
    // And those who were in line when the time was up.
    expect(answer.acquired).toBeGreaterThan(inTime);
    expect(answer.acquired).toBeLessThanOrEqual(inTime + 4);
    expect(sum(answer.waits.counts.map(([, count]: [number, number]) => count))).toBe(answer.acquired);
    // One at a time, each but the last for 1 ms.
    expect(answer.usedMs).toBeGreaterThanOrEqual(inTime - 1);
    expect(answer.usedMs).toBeLessThanOrEqual(500);
    expect(answer.cpuUs).toBeGreaterThan(0);
  });

  it('tells who still waits when the time and the grace are over', async () => {
    await worker.ask('hold', { count: 1, prefix: 'kept:' });
    const task = { callers: 3, keys: ['kept:0'], ms: 200, workMs: 0, graceMs: 100 };
    const answer = await other.ask('turns', task);
    expect(answer).toMatchObject({ acquired: 0, perCaller: [0, 0, 0], unfinished: 3 });
    expect(answer.waits.maxMs).toBeGreaterThanOrEqual(200);
  });

  it('tells of two processes at one key stays that do not overlap, by one clock', async () => {
    const task = { key: 'hop', ms: 1000, holdMs: 3 };
    const answers = await Promise.all(workers.map((one) => one.ask('hops', task)));
    for (const { stays, failed } of answers) expect([stays.length > 0, failed]).toEqual([true, 0]);
    const stays: [number, number][] = answers.flatMap((answer) => answer.stays);
    stays.sort(([a], [b]) => a - b);
    stays.reduce((before, stay) => {
      expect(stay[0]).toBeGreaterThan(before[1]);
      return stay;
    });
    for (const [from, to] of stays) expect(to - from).toBeGreaterThanOrEqual(3);
  });

  it('tells what it costs to hold locks, and answers what it cannot do by an error', async () => {
    const { bytesEach } = await worker.ask('hold', { count: 200, prefix: 'held:' });
    expect(bytesEach).toBeGreaterThan(0);
    const { cpuUs, ms } = await worker.ask('idle', { ms: 50 });
    expect([cpuUs >= 0, ms >= 50]).toEqual([true, true]);
    await expect(worker.ask('crowd')).rejects.toThrow('no such task: crowd');
  });
});

/** Of verification/bench/src/measure/worker-process.mjs. */
interface Worker {
  ask(task: string, details?: object): Promise<any>;
  kill(): void;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
