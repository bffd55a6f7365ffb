import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { until } from '#until';
import { PLACES, once } from '../support.js';
import { overApollo, overMercurius } from './graphql.js';
import { handlersOf } from './handlers.js';
import { overRedis, overTcp } from './messages.js';
import { overIo, overWs } from './sockets.js';
import { seen, type Running, type Transport } from './transport.js';
import { outcomesOf } from '../../../support/events.js';

const TRANSPORTS: Readonly<Record<string, Transport>> = {
  'messages over TCP': overTcp,
  'messages over Redis': overRedis,
  'a WebSocket': overWs,
  'socket.io': overIo,
  'GraphQL of Apollo on Express': overApollo,
  'GraphQL of Mercurius on Fastify': overMercurius,
};

const MATRIX = Object.keys(TRANSPORTS).flatMap((name) => PLACES.map((place) => [name, place] as const));

describe.each(MATRIX)('@Locked on %s, other decorators %s it', (name, place) => {
  const transport = TRANSPORTS[name] as Transport;
  let running: Running;
  let events: string[];

  beforeAll(async () => {
    running = await transport.start(handlersOf(transport, place));
  });
  beforeEach(() => {
    events = outcomesOf(running.locks);
    running.stage.log.length = 0;
    seen.length = 0;
  });
  afterAll(() => running.close());

  it('handler, guard, metadata, pipe and interceptor work under one lock', async () => {
    expect(await running.call('buy', '042')).toEqual({ value: '[number 42 under g:42 in g:42]' });
    await until(() => events.length > 1);
    expect(events).toEqual(once('g:42'));
  });

  it('a guard refuses, and nothing is locked', async () => {
    expect((await running.call('denied', '1')).error).toBeDefined();
    expect([events, running.stage.log]).toEqual([[], []]);
  });

  it('a filter of the method sees the error of the method', async () => {
    expect((await running.call('soldOut', '1')).error?.message).toBe('sold out');
  });

  it('a busy lock is told by code and not by key, as an exception of the transport', async () => {
    const mine = await running.locks.acquire('g:7');
    const { error } = await running.call('buy', '7');
    expect(error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', message: expect.stringContaining('in use') });
    expect(JSON.stringify(error)).not.toMatch(/g:7|held by/);
    expect(seen).toEqual([expect.any(transport.exception)]);
    expect(seen[0]).toMatchObject({ cause: { code: 'LOCK_WAIT_TIMEOUT', key: 'g:7' } });
    await mine.release();
    expect(await running.call('buy', '7')).toMatchObject({ value: expect.stringContaining('under g:7') });
  });

  it('a function given as onBusy answers for the handler, with what is injected there', async () => {
    const mine = await running.locks.acquire('g:9');
    expect(await running.call('fallback', '9')).toEqual({ value: 'LOCK_WAIT_TIMEOUT' });
    expect(running.stage.log).toEqual(['9 is busy']);
    await mine.release();
    expect(await running.call('fallback', '9')).toEqual({ value: '9' });
  });

  it('a value that makes no key is told by code', async () => {
    expect((await running.call('named', '  ')).error).toMatchObject({ code: 'LOCK_KEY' });
    expect(await running.call('named', ' a:b ')).toEqual({ value: ' a:b  under named:a%3Ab' });
  });

  it('a store that is away is told by code and not by address', async () => {
    const { error } = await running.call('down', '1');
    expect(error).toMatchObject({ code: 'LOCK_STORE' });
    expect(JSON.stringify(error)).not.toContain('secret-host');
  });

  it('a loss is told while the handler still runs', async () => {
    const call = running.call('lost', '1');
    await until(() => running.stage.isAt('lost'));
    await running.locks.forceRelease('lost:1');
    expect((await call).error).toMatchObject({ code: 'LOCK_LOST' });
    running.stage.go('lost');
    await until(() => running.stage.log.includes('lost left'));
  });

  it('a lock error of code inside an ordinary handler is told by code as well', async () => {
    const mine = await running.locks.acquire('g:8');
    const { error } = await running.call('inside', '8');
    expect(error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
    expect(JSON.stringify(error)).not.toContain('g:8');
    await mine.release();
    expect(await running.call('inside', '8')).toEqual({ value: 'free' });
  });

  it('a mistake of the program is told to nobody but the log', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockReturnValue(undefined);
    const { error } = await running.call('mistake', '1');
    expect(error?.message).toBe('Internal server error');
    expect(logged).toHaveBeenCalledWith(expect.objectContaining({ code: 'LOCK_CONFIGURATION' }));
    logged.mockRestore();
  });
});
