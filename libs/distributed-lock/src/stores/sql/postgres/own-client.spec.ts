import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { connectOwn } from './own-client.js';

describe('a connection of the PostgreSQL store', () => {
  const closing: (() => unknown)[] = [];
  afterEach(() => closing.splice(0).forEach((close) => close()));

  const setUp = () => Promise.reject(new Error('it was connected'));

  /** As a frozen server: its system accepts the connection, and no byte comes back. */
  async function silentServer(): Promise<string> {
    const server = createServer((socket) => {
      closing.unshift(() => socket.destroy());
      socket.on('error', () => undefined);
    });
    closing.push(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return `postgres://a@127.0.0.1:${(server.address() as AddressInfo).port}/b`;
  }

  it('to a server that never replies is given up when its time is over', async () => {
    const connecting = connectOwn(await silentServer(), AbortSignal.timeout(50), () => undefined, setUp);
    await expect(connecting).rejects.toMatchObject({ name: 'TimeoutError' });
  });

  it('is not begun after its time', async () => {
    const connecting = connectOwn(await silentServer(), AbortSignal.abort('closed'), () => undefined, setUp);
    await expect(connecting).rejects.toBe('closed');
  });
});
