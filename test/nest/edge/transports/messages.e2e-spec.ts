import { describe, expect, it } from '@jest/globals';
import { Controller, Inject } from '@nestjs/common';
import { Ctx, MessagePattern, Payload, type RedisContext, type TcpContext } from '@nestjs/microservices';
import { Locked, LockService } from 'nestjs-distributed-lock';
import { ConnectedSocket, MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { until } from '#until';
import { Stage } from '../../integration/stage.js';
import { once } from '../support.js';
import { onEvent, startRpc } from './messages.js';
import { outcomesOf } from '../../../support/events.js';
import { connect, connectIo, startIo, startWs } from './sockets.js';

describe.each(['TCP', 'Redis'] as const)('messages over %s', (wire) => {
  @Controller()
  class Handlers {
    constructor(
      @Inject(Stage) private readonly stage: Stage,
      @Inject(LockService) private readonly locks: LockService,
    ) {}

    @onEvent('event.placed')
    @Locked('order:<id>')
    async placed(@Payload('id') id: string): Promise<void> {
      this.stage.note(`${id} under ${this.locks.current()?.key}`);
    }

    @MessagePattern('whole')
    @Locked(['order:<data.id>', 'order:<0.id>:lines'])
    async whole(@Payload() _order: { id: string }): Promise<unknown> {
      return this.locks.current()?.keys;
    }

    @MessagePattern('context')
    @Locked((context: TcpContext | RedisContext, id: string) => `${typeof context.getArgs()}:${id}`)
    async context(@Ctx() _context: TcpContext | RedisContext, @Payload('id') _id: string): Promise<unknown> {
      return this.locks.current()?.key;
    }
  }

  it('an event is handled under one lock, and a payload makes the key by source and by position', async () => {
    const { call, stage, locks, close } = await startRpc(Handlers, wire);
    const events = outcomesOf(locks);
    await call('event.placed', '5');
    await until(() => events.length > 1);
    expect([stage.log, events]).toEqual([['5 under order:5'], once('order:5')]);
    expect(await call('whole', '6')).toEqual({ value: ['order:6', 'order:6:lines'] });
    await close();
  });

  it('a key function gets the context where the handler gets it', async () => {
    const { call, close } = await startRpc(Handlers, wire);
    expect(await call('context', '7')).toEqual({ value: 'object:7' });
    await close();
  });
});

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
