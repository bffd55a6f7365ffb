import { rm } from 'node:fs/promises';

/** @type {import('./index.d.mts').ownServerOn} */
export function ownServerOn({ port, url, folder, running, start }) {
  const kill = async () => void (await running.kill());
  return {
    port,
    url,
    folder,
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
