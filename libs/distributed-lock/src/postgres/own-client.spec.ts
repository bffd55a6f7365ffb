import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { connectOwn } from './own-client.js';

describe('a connection of the PostgreSQL store', () => {
  const closing: (() => unknown)[] = [];
  afterEach(() => closing.splice(0).forEach((close) => close()));

  const setUp = () => Promise.reject(new Error('it was connected'));
  const connect = (target: string, signal: AbortSignal) =>
    connectOwn({ target, connectionName: 'locks' }, { signal, onLost: () => undefined }, setUp);

  /** As a frozen server: its system accepts the connection, and no byte comes back. */
  async function silentServer() {
    const server = createServer();
    const closed = once(server, 'connection').then(([socket]) => once((socket as Socket).resume(), 'close'));
    closing.push(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return { url: `postgres://a@127.0.0.1:${(server.address() as AddressInfo).port}/b`, closed };
  }

  it('to a server that never replies leaves no socket when its time is over', async () => {
    const { url, closed } = await silentServer();
    connect(url, AbortSignal.timeout(50)).catch(() => undefined);
    await expect(closed).resolves.toBeDefined();
  });

  it('is not begun after its time', async () => {
    const { url } = await silentServer();
    await expect(connect(url, AbortSignal.abort('closed'))).rejects.toBe('closed');
  });
});
