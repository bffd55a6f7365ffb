// A Nest application with the built package in it, by the same remote control as the Java service (verification/interop/README.md).
import 'reflect-metadata';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cluster, Redis } from 'ioredis';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

const {
  url,
  nodes,
  sharded: _sharded,
  fairWaitMs: _fairWaitMs,
  sharedTokens,
  ...options
} = JSON.parse(process.argv[2]);
const redis = nodes ? new Cluster(nodes) : new Redis(url);
// As long as a lease allows: what a busy machine takes for a connection is no complaint about Redisson.
const commandTimeoutMs = (options.watchdogTimeoutMs ?? 30_000) / 3;
const store = redisStore(redis, { sharedTokens, commandTimeoutMs });

class AppModule {}
Module({ imports: [DistributedLockModule.forRoot({ store, shutdownGraceMs: 0, ...options })] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule, {
  logger: ['warn', 'error'],
  abortOnError: false,
});
const locks = app.get(LockService);
/** By thread and name: what a thread of Java would know by itself. @type {Map<string, import('nestjs-distributed-lock').Lock>} */
const held = new Map();

const nowMs = () => performance.timeOrigin + performance.now();
const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const slot = ({ thread = 1, name }) => `${thread} ${name}`;

async function timed(work) {
  const startedAt = performance.now();
  return { ...(await work()), waitedMs: performance.now() - startedAt };
}

/** A plain lock has no mode. */
const MODES = { read: 'shared', write: 'exclusive' };

async function tryLock(order, waitMs) {
  const { name, kind, leaseMs, permits } = order;
  const mode = MODES[kind];
  const claim = { ...(mode && { mode }), ...(permits && { permits }) };
  const lock = await locks.tryAcquire(name, { waitMs, ...claim, ...(leaseMs && { leaseMs }) });
  if (!lock) return { held: false };
  held.set(slot(order), lock);
  return { held: true, token: lock.fencingToken };
}

async function unlock(order) {
  const outcome = await held.get(slot(order))?.release();
  held.delete(slot(order));
  return { outcome: outcome ?? 'lost' };
}

/** As Java: a name that ends in `:rw` is a read-write lock, which is read or written at random. */
function modeOf(name) {
  if (!name.endsWith(':rw')) return undefined;
  return Math.random() * 3 < 2 ? 'shared' : 'exclusive';
}

/** Flows that take locks at random, and write what they do into one list in Redis, as the Java service does. */
async function crowd({ names, threads = 1, untilMs, holdMs = 1, who, history }) {
  const write = (...words) => redis.rpush(history, words.join(' '));
  const takeTurns = async (me) => {
    let turns = 0;
    for (; nowMs() < untilMs; turns++) {
      const name = names[Math.floor(Math.random() * names.length)];
      const mode = modeOf(name);
      await locks.withLock(name, { waitMs: Infinity, ...(mode && { mode }) }, async ({ fencingToken }) => {
        const step = [me, name, fencingToken, mode === 'shared' ? 'read' : 'write'];
        await write('enter', ...step);
        await pause(holdMs);
        await write('leave', ...step);
      });
    }
    return { who: me, turns };
  };
  return {
    threads: await Promise.all(Array.from({ length: threads }, (_, i) => takeTurns(`${who}.${i + 1}`))),
  };
}

const orders = {
  lock: (order) => timed(() => tryLock(order, Infinity)),
  tryLock: (order) => timed(() => tryLock(order, order.waitMs ?? 0)),
  unlock,
  hold: async (order) => {
    const answer = await orders.lock(order);
    await pause(order.holdMs);
    return { ...answer, ...(await unlock(order)) };
  },
  forceUnlock: async ({ name }) => ({ freed: (await locks.forceRelease(name)) === 'released' }),
  downgrade: async (order) => {
    await held.get(slot(order)).downgrade();
    return {};
  },
  state: async (order) => {
    const { holders = [], remainingMs = -2 } = (await locks.inspect(order.name)) ?? {};
    const isMine = (held.get(slot(order))?.validForMs ?? 0) > 0;
    return { locked: holders.length > 0, mine: isMine, holds: isMine ? 1 : 0, remainingMs };
  },
  crowd,
};

locks.events$.subscribe(({ type, key }) => type === 'lost' && say({ event: type, name: key }));
await redis.ping();
// The store connects when it is asked for the first time, and is then as quick as it will be.
await locks.withLock(`warm:${process.pid}`, () => undefined);
say({ ready: true });

for await (const line of createInterface(process.stdin)) {
  const order = JSON.parse(line);
  if (order.do === 'close') {
    await app.close();
    redis.disconnect();
    say({ id: order.id });
    break;
  }
  Promise.resolve(orders[order.do]?.(order) ?? Promise.reject(new Error(`no such order: ${order.do}`))).then(
    (answer) => say({ id: order.id, ...answer, atMs: nowMs() }),
    (error) => say({ id: order.id, error: String(error) }),
  );
}
process.exit();
