import { afterAll, beforeAll } from '@jest/globals';

const START_MS = 90_000;

/**
 * Starts a server, or a set of them, before the tests of the surrounding block, and stops it after them.
 *
 * @returns the server, to be read inside tests and hooks. What uses it to the end is closed by an `afterAll` above this one
 */
export function ownServer<Server extends { stop(): Promise<unknown> }>(start: () => Promise<Server>): Server {
  let started: Server | undefined;
  beforeAll(async () => {
    started = await start();
  }, START_MS);
  afterAll(() => started?.stop());
  return new Proxy({} as Server, {
    get: (_, name) => {
      if (!started) throw new Error(`A hook starts the server: read its ${String(name)} inside a test.`);
      const value: unknown = Reflect.get(started, name);
      return typeof value === 'function' ? (value.bind(started) as unknown) : value;
    },
  });
}
