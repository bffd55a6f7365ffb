import 'reflect-metadata';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable, type INestApplicationContext } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import * as bullmq from 'bullmq';
import { type Job, Queue as BullQueue, type Queue } from 'bullmq';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { LockedJob } from 'nestjs-distributed-lock/bullmq';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { fileURLToPath } from 'node:url';
import { spawnGuarded } from '#processes';
import { until } from '#until';
import { ownRedis } from '../support/own-redis.js';

const WORKER = fileURLToPath(new URL('support/worker.mjs', import.meta.url));

/** The Jest project `bullmq-5` runs this suite on the version before the newest, which does not say its number. */
const { bullmqMajor = 6 } = globalThis as { readonly bullmqMajor?: number };

it('has the version of BullMQ that its Jest project names', () => {
  expect(bullmq.BULLMQ_MAJOR_VERSION).toBe(bullmqMajor === 6 ? 6 : undefined);
});

interface Data {
  readonly customer: string;
  readonly fails?: boolean;
}

/** What the jobs of all workers of a test did, in order. */
@Injectable()
class Log {
  readonly began: string[] = [];
  readonly ended: string[] = [];
  readonly running = new Map<string, number>();
  mostAtOnce = 0;
  /** Jobs of these customers stand still until the test removes the name. */
  readonly held = new Set<string>();
}

@Processor('invoices', { concurrency: 8, drainDelay: 1, lockDuration: 5000, stalledInterval: 1000 })
class InvoiceWorker extends WorkerHost {
  constructor(private readonly log: Log) {
    super();
  }

  @LockedJob('customer:<job.data.customer>', { maxDelayMs: 60_000 })
  override async process(job: Job<Data>): Promise<string> {
    const { customer, fails = false } = job.data;
    const { log } = this;
    const count = (log.running.get(customer) ?? 0) + 1;
    log.running.set(customer, count);
    log.mostAtOnce = Math.max(log.mostAtOnce, count);
    log.began.push(`${customer} ${job.id}`);
    if (log.held.has(customer)) await until(() => !log.held.has(customer));
    else await new Promise((resolve) => setImmediate(resolve));
    log.running.set(customer, count - 1);
    log.ended.push(`${customer} ${job.id}`);
    if (fails) throw new Error('no such invoice');
    return `done ${job.id}`;
  }
}

describe('a job whose key is busy', () => {
  const redis = ownRedis('bullmq');
  const open: INestApplicationContext[] = [];
  let log: Log;
  let queue: Queue<Data>;

  /** One process with a worker. */
  async function startWorker(): Promise<INestApplicationContext> {
    const { hostname: host, port } = new URL(redis.url);
    const module = await Test.createTestingModule({
      imports: [
        DistributedLockModule.forRoot({
          store: redisStore(redis.url, { commandTimeoutMs: 10_000 }),
          keyPrefix: `${redis.key}:`,
        }),
        BullModule.forRoot({ connection: { host, port: Number(port) }, prefix: redis.key }),
        BullModule.registerQueue({ name: 'invoices' }),
      ],
      providers: [InvoiceWorker, { provide: Log, useValue: log }],
    }).compile();
    open.push(await module.init());
    return module;
  }

  beforeEach(async () => {
    log = new Log();
    queue = (await startWorker()).get<Queue<Data>>(getQueueToken('invoices'));
  });
  afterEach(async () => {
    log.held.clear();
    await Promise.all(open.splice(0).map((module) => module.close()));
  });

  const add = (customer: string, data: Partial<Data> = {}) => queue.add('invoice', { customer, ...data });
  const addAll = (customers: readonly string[]) =>
    queue.addBulk(customers.map((customer) => ({ name: 'invoice', data: { customer } })));
  const endedOf = (customer: string) =>
    log.ended.filter((it) => it.startsWith(`${customer} `)).map((it) => Number(it.split(' ')[1]));
  const sorted = (ids: readonly number[]) => ids.toSorted((a, b) => a - b);

  it('gives its worker to another key, and comes again as soon as its key is free', async () => {
    log.held.add('hot');
    const jobs = await addAll(Array.from({ length: 20 }, () => 'hot'));
    await until(() => log.began.length === 1);
    await add('cold');
    await until(() => endedOf('cold').length === 1);
    expect(log.began.filter((it) => it.startsWith('hot'))).toHaveLength(1);
    log.held.clear();
    // Long before the 60 s of maxDelayMs.
    await until(() => log.ended.length === 21);
    expect(log.mostAtOnce).toBe(1);
    for (const { id } of jobs) {
      const job = await queue.getJob(id!);
      expect(await job!.getState()).toBe('completed');
      expect(job!.attemptsMade).toBe(1);
      expect(job!.failedReason).toBeUndefined();
    }
  });

  it('keeps its place among the jobs of its key, over four workers of eight slots each', async () => {
    await Promise.all([startWorker(), startWorker(), startWorker()]);
    const customers = Array.from({ length: 300 }, (_, i) => (i % 3 === 0 ? 'hot' : `customer-${i % 50}`));
    await addAll(customers);
    await until(() => log.ended.length === 300, 60_000);
    expect(log.mostAtOnce).toBe(1);
    for (const customer of new Set(customers)) expect(endedOf(customer)).toEqual(sorted(endedOf(customer)));
  });

  it('is woken when the job before it fails, and a retry works under the lock again', async () => {
    const failing = await queue.add('invoice', { customer: 'a', fails: true }, { attempts: 2, backoff: 10 });
    await addAll(['a', 'a']);
    await until(async () => (await failing.getState()) === 'failed' && log.ended.length === 4);
    expect(log.mostAtOnce).toBe(1);
    expect((await queue.getJob(failing.id!))!.attemptsMade).toBe(2);
  });

  it('waits for a holder outside of the queue, and comes when that one releases', async () => {
    const locks = open[0]!.get(LockService);
    const lock = await locks.acquire('customer:a');
    const job = await add('a');
    await until(async () => (await job.getState()) === 'delayed');
    expect(log.began).toEqual([]);
    await lock.release();
    await until(async () => (await job.getState()) === 'completed');
    expect((await queue.getJob(job.id!))!.attemptsMade).toBe(1);
  });

  it('does not wait for a job that somebody has removed from the queue', async () => {
    log.held.add('a');
    const [first] = await addAll(['a']);
    await until(() => log.began.length === 1);
    const [removed, last] = await addAll(['a', 'a']);
    await until(
      async () => (await last!.getState()) === 'delayed' && (await removed!.getState()) === 'delayed',
    );
    await removed!.remove();
    log.held.clear();
    await until(() => log.ended.length === 2);
    expect(endedOf('a')).toEqual([Number(first!.id), Number(last!.id)]);
  });

  // The worker that is killed has the newest version.
  it('is done by another worker if that of the job before it is killed, after the job of the killed one', async () => {
    await open.pop()!.close();
    const options = JSON.stringify({ url: redis.url, prefix: redis.key, keyPrefix: `${redis.key}:` });
    const { child, exited } = spawnGuarded(process.execPath, [WORKER, options], { stdio: 'pipe' });
    const began: string[] = [];
    child.stdout?.on('data', (text: Buffer) => began.push(String(text).trim()));
    const connection = { host: '127.0.0.1', port: redis.server.port };
    const producer = new BullQueue<Data>('invoices', { connection, prefix: redis.key });
    const [first, second] = await producer.addBulk(
      ['a', 'a'].map((customer) => ({ name: 'invoice', data: { customer } })),
    );
    await until(() => began.includes(first!.id!), 25_000);
    await startWorker();
    child.kill('SIGKILL');
    await exited;
    await until(() => log.ended.length === 2, 25_000);
    expect(endedOf('a')).toEqual([Number(first!.id), Number(second!.id)]);
    await producer.close();
  });
});

describe('@LockedJob', () => {
  it('belongs on process, and refuses wrong options', () => {
    const load = (options: object) => () => {
      class Wrong {
        @LockedJob('a', options)
        process(): void {}
      }
      return Wrong;
    };
    expect(load({ waitMs: 1 })).toThrow('@LockedJob on Wrong.process has no option "waitMs"');
    expect(load({ maxDelayMs: 0 })).toThrow('maxDelayMs must be 1 ms or more');
    expect(() => {
      class Other {
        @LockedJob('a')
        run(): void {}
      }
      return Other;
    }).toThrow('put it on the method process');
  });
});
