// How long the lead is with nobody: after a deploy (SIGTERM), and after a crash (SIGKILL) under a lease of 3 s. Prints the median
// and the longest of some rounds: node test/leader/measure.mjs [rounds]
import { Redis } from 'ioredis';
import { startRedisServer } from '#redis-server';
import { until } from '#until';
import { startProcess } from './support/start-process.mjs';

const ROUNDS = Number(process.argv[2] ?? 10);
const redis = await startRedisServer();
const eyes = new Redis(redis.url);

/** @param {NodeJS.Signals} signal */
async function handOver(signal) {
  const start = () => startProcess({ url: redis.url, watchdogTimeoutMs: 3000 });
  const first = await start();
  await first.when('elected');
  const next = await start();
  await until(async () => (await eyes.zcard('nest_lock_queue:{leader:poller}')) === 1);
  try {
    const sentAt = performance.timeOrigin + performance.now();
    first.send(signal);
    return (await next.when('elected')).at - sentAt;
  } finally {
    await Promise.all([first.stop(), next.stop()]);
    await eyes.flushall();
  }
}

try {
  for (const [what, signal] of [
    ['deploy', 'SIGTERM'],
    ['crash', 'SIGKILL'],
  ]) {
    const took = [];
    for (let i = 0; i < ROUNDS; i++) took.push(Math.round(await handOver(signal)));
    took.sort((a, b) => a - b);
    console.log(`${what}: median ${took[took.length >> 1]} ms, longest ${took.at(-1)} ms, ${ROUNDS} rounds`);
  }
} finally {
  eyes.disconnect();
  await redis.stop();
}
