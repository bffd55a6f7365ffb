import { Redis } from 'ioredis';
import Redlock from 'redlock';

/** @param {string} url @param {number} leaseMs */
export async function open(url, leaseMs) {
  const redlock = new Redlock([new Redis(url)]);
  redlock.on('error', () => {});
  const runAll = (keys, work, { onLost } = {}) =>
    redlock.using(keys, leaseMs, (signal) => {
      if (onLost) signal.addEventListener('abort', onLost);
      return work();
    });
  return {
    run: (key, work, options) => runAll([key], work, options),
    isFree: (key) => redlock.using([key], leaseMs, { retryCount: 0 }, async () => true).catch(() => false),
    runAll,
  };
}
