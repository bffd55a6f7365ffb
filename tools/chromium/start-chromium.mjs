import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { spawnGuarded } from '#processes';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--hide-scrollbars',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Containers have little of it.
  '--disable-dev-shm-usage',
  '--remote-debugging-port=0',
];

/** @type {import('./index.d.mts').startChromium} */
export async function startChromium(command) {
  const profile = mkdtempSync(join(tmpdir(), 'seckill-browser-'));
  const args = [...FLAGS, `--user-data-dir=${profile}`];
  const { child, exited } = spawnGuarded(command, args, {
    env: { ...process.env, TMPDIR: profile },
    folder: profile,
    stdio: 'pipe',
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
    endHelpers(child.pid);
    await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  };
  child.stdout?.resume();
  const ended = exited.then(() => undefined);
  const endpoint = child.stderr && (await Promise.race([endpointIn(child.stderr), ended]));
  if (endpoint) return { endpoint, stop };
  await stop();
  throw new Error(`${command} ended before it listened.`);
}

/** @param {NodeJS.ReadableStream} stderr @returns {Promise<string>} */
function endpointIn(stderr) {
  return new Promise((resolve) => {
    createInterface({ input: stderr }).on('line', (line) => {
      const endpoint = /DevTools listening on (ws:\S+)/.exec(line)?.[1];
      if (endpoint) resolve(endpoint);
    });
  });
}

/** They are of its process group, and would write to the profile for a moment longer. @param {number | undefined} pid */
function endHelpers(pid) {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // All have gone.
  }
}
