import { describe, expect, it } from '@jest/globals';
import { Controller, Inject } from '@nestjs/common';
import { Ctx, MessagePattern, Payload, type RedisContext, type TcpContext } from '@nestjs/microservices';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { Stage } from '../../integration/stage.js';
import { until } from '#until';
import { once } from '../support.js';
import { onEvent, startRpc } from './messages.js';
import { outcomesOf } from '../../../support/events.js';

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
