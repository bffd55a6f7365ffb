import { setTimeout as pause } from 'node:timers/promises';
import { systemMs } from '../measure/system-ms.mjs';

/** The least that a hand-off costs: a PUBLISH in one process, its message in another. No other task needs this client. */
const connect = async (url) => new (await import('ioredis')).Redis(url);

/** @param {unknown} _ @param {{ url: string, channel: string, ms: number }} details */
export async function listen(_, { url, channel, ms }) {
  const hopsMs = [];
  const client = await connect(url);
  client.on('message', (_channel, sentAt) => hopsMs.push(systemMs() - Number(sentAt)));
  await client.subscribe(channel);
  await pause(ms);
  client.disconnect();
  return { hopsMs };
}

/** @param {unknown} _ @param {{ url: string, channel: string, ms: number, everyMs: number }} details */
export async function publish(_, { url, channel, ms, everyMs }) {
  const client = await connect(url);
  const endsAt = performance.now() + ms;
  while (performance.now() < endsAt) {
    await client.publish(channel, String(systemMs()));
    await pause(everyMs);
  }
  client.disconnect();
}
