import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { javaService } from '../../interop/index.mjs';

/** Redisson in a JVM of its own; each call is a Java thread. @param {string} url @param {number} leaseMs */
export async function open(url, leaseMs) {
  const { command, args } = javaService();
  const settings = JSON.stringify({ url, watchdogTimeoutMs: leaseMs });
  const java = spawn(command, [...args, settings], { stdio: ['pipe', 'pipe', 'ignore'] });
  const asked = new Map();
  let ready;
  const started = new Promise((resolve) => (ready = resolve));
  createInterface(java.stdout).on('line', (line) => {
    const answer = JSON.parse(line);
    if (answer.ready) ready();
    asked.get(answer.id)?.(answer);
  });
  let last = 0;
  async function order(what, name, thread, more) {
    const id = ++last;
    const answer = new Promise((resolve) => asked.set(id, resolve));
    java.stdin.write(`${JSON.stringify({ id, do: what, name, thread, ...more })}\n`);
    const { error, ...rest } = await answer;
    if (error) throw new Error(error);
    return rest;
  }
  /** Rejects where Java throws. The usual `finally` of Java, as here, then gives that to the caller. */
  async function unlock(key, thread, kind) {
    const { outcome } = await order('unlock', key, thread, { kind });
    if (outcome === 'lost') throw new Error('IllegalMonitorStateException');
  }
  let threads = 0;
  await started;
  const library = {
    async run(key, work, { fair, thread = ++threads } = {}) {
      const kind = fair ? 'fair' : 'lock';
      await order('lock', key, thread, { kind });
      try {
        return await work(thread);
      } finally {
        await unlock(key, thread, kind);
      }
    },
    isFree: async (key) => {
      const thread = ++threads;
      const { held } = await order('tryLock', key, thread);
      if (held) await order('unlock', key, thread);
      return held;
    },
  };
  // The JVM loads its classes before anything is timed.
  await Promise.all([1, 2, 3].map(() => library.run('open', async () => {}, { fair: true })));
  return library;
}
