import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.mjs';

const ATTEMPTS = 5;

/** @type {import('./index.d.mts').startOwnServer} */
export async function startOwnServer({ name, urlOn, prepare, run }) {
  const folder = await mkdtemp(join(tmpdir(), `${name}-`));
  try {
    await prepare?.(folder);
    for (let attempt = 1; ; attempt++) {
      const port = await freePort();
      try {
        return serverOn(port, urlOn(port), folder, () => run(port, folder), await run(port, folder));
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
      }
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** @returns {import('./index.d.mts').OwnServer} */
function serverOn(port, url, folder, start, running) {
  const kill = async () => void (await running.kill());
  return {
    port,
    url,
    pause: async () => void (await running.pause()),
    resume: async () => void (await running.resume()),
    kill,
    async restart() {
      await kill();
      running = await start();
    },
    async stop() {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
