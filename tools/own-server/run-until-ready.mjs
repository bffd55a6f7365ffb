import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { spawnGuarded } from '../processes/index.mjs';
import { untilStopped } from './until-stopped.mjs';

const START_MS = 30_000;

/** @type {import('./index.d.mts').runUntilReady} */
export async function runUntilReady(command, args, { folder, isReady, signal, ...options }) {
  const file = join(folder, 'log');
  const log = await open(file, 'w');
  const { child, exited } = spawnGuarded(command, args, { ...options, folder, stdio: log.fd });
  await log.close();
  let ended = false;
  void exited.then(() => (ended = true));
  const send = async (name) => {
    if (!ended) await (signal ? signal(name, child.pid) : child.kill(name));
  };
  const kill = async () => {
    await send('SIGKILL');
    await exited;
  };
  const deadline = Date.now() + START_MS;
  while (!(await isReady(child.pid, readFileSync(file, 'utf8')))) {
    if (ended || Date.now() > deadline) {
      await kill();
      throw new Error(`${command} did not start:\n${readFileSync(file, 'utf8')}`);
    }
    await pause(20);
  }
  const stop = async () => {
    await send('SIGSTOP');
    // With a signal of its own the server is another process.
    if (!signal) await untilStopped(child.pid);
  };
  return { pause: stop, resume: () => send('SIGCONT'), kill };
}
