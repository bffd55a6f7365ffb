import { describe, expect, it } from '@jest/globals';
import { Inject } from '@nestjs/common';
import { ConnectedSocket, MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { until } from '#until';
import { connect, connectIo, startIo, startWs } from './sockets.js';

interface Client {
  send(message: unknown): unknown;
}

/** A client that asks to wait, and goes away without a word. */
const SOCKETS = {
  'a WebSocket': {
    start: startWs,
    join: async (url: string) => {
      const socket = await connect(url);
      socket.send(JSON.stringify({ event: 'wait', data: { id: '1' } }));
      return () => socket.terminate();
    },
  },
  'socket.io': {
    start: startIo,
    join: async (url: string) => {
      const socket = await connectIo(url);
      socket.emit('wait', { id: '1' });
      return () => void socket.disconnect();
    },
  },
};

describe.each(Object.entries(SOCKETS))('%s', (_name, { start, join }) => {
  @WebSocketGateway()
  class Gateway {
    constructor(@Inject(LockService) private readonly locks: LockService) {}

    @SubscribeMessage('socket')
    @Locked((socket: Client, id: string) => `${typeof socket.send}:${id}`)
    async socket(@ConnectedSocket() _socket: Client, @MessageBody('id') _id: string): Promise<unknown> {
      return this.locks.current()?.key;
    }

    @SubscribeMessage('wait')
    @Locked('wait:<data.id>')
    async wait(): Promise<string> {
      return 'done';
    }
  }

  it('a key function gets the socket where the handler gets it', async () => {
    const { call, close } = await start(Gateway);
    expect(await call('socket', '7')).toEqual({ value: 'function:7' });
    await close();
  });

  it('a client that leaves while it waits leaves the queue', async () => {
    const { url, locks, close } = await start(Gateway);
    const ended: string[] = [];
    const mine = await locks.acquire('wait:1');
    locks.events$.subscribe(({ type }) => ended.push(type));
    const leave = await join(url);
    await until(() => ended.includes('asked'));
    leave();
    await until(() => ended.includes('abandoned'));
    expect(await mine.release()).toBe('released');
    await close();
  });
});
