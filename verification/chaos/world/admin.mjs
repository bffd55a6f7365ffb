import { Redis } from 'ioredis';

/** A client past the library and past the faulty network, which may try for long. @param {string} url */
export function adminOf(url) {
  const client = new Redis(url, {
    retryStrategy: () => 20,
    maxRetriesPerRequest: null,
    connectTimeout: 1000,
  });
  client.on('error', () => undefined);
  return client;
}

/**
 * The keys of locks that are left, each with its time to live in ms, or -1 for none.
 *
 * @param {readonly Redis[]} clients @returns {Promise<{ name: string, remainingMs: number }[]>}
 */
export async function remainsOf(clients) {
  const found = clients.map(async (client) => {
    const names = (await client.keys('*')).filter((name) => name.includes('chaos:'));
    return Promise.all(names.map(async (name) => ({ name, remainingMs: await client.pttl(name) })));
  });
  return (await Promise.all(found)).flat();
}
