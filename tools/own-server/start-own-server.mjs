import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.mjs';
import { ownServerOn } from './own-server-on.mjs';

const ATTEMPTS = 5;

/** @type {import('./index.d.mts').startOwnServer} */
export async function startOwnServer({ name, urlOn, prepare, run }) {
  const folder = await mkdtemp(join(tmpdir(), `${name}-`));
  try {
    await prepare?.(folder);
    for (let attempt = 1; ; attempt++) {
      const port = await freePort();
      try {
        const running = await run(port, folder);
        return ownServerOn({ port, url: urlOn(port), folder, running, start: () => run(port, folder) });
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
      }
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}
