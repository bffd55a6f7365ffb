import { describe, expect, it, jest } from '@jest/globals';
import { HttpException, Logger, type ArgumentsHost } from '@nestjs/common';
import { firstValueFrom, type Observable } from 'rxjs';
import {
  LockConfigurationError,
  LockKeyError,
  LockLostError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../port/lock.errors.js';
import { LockErrorFilter } from './lock-error.filter.js';
import { retryAfterSeconds, toHttpException } from './lock-http.js';

const client = { application: 'secret-shop', host: 'pod-3', process: 11, since: new Date(0) };
const heldBy = { owner: 'pod-3/7f2c', client, site: 'secretive.method', heldMs: 30_000 };
const busy = new LockWaitTimeoutError('tenant-7:secret', 200, 'pod-3/7f2c', 11_400, heldBy);
const lost = new LockLostError('tenant-7:secret', 30_012, 'expired', 'no renewal succeeded');

describe('a lock error for HTTP clients', () => {
  it.each([
    [busy, 423],
    [new LockStoreError('redis-3 down', 'tenant-7:secret', 'unreachable'), 503],
    [new LockShutdownError('closing', 'tenant-7:secret'), 503],
    [lost, 503],
    [new LockKeyError('secret is empty', 'tenant-7:secret'), 400],
  ])('%s has the status %i, and neither key nor holder nor number in its body', (error, status) => {
    const exception = toHttpException(error) as HttpException;
    expect(exception).toBeInstanceOf(HttpException);
    expect(exception.getStatus()).toBe(status);
    expect(exception.cause).toBe(error);
    expect(exception.getResponse()).toMatchObject({ statusCode: status, code: error.code });
    expect(JSON.stringify(exception.getResponse())).not.toMatch(/secret|pod-3|redis-3|tenant|200|11|30/);
  });

  it('names the part of the request that is wrong, as its client knows it', () => {
    const error = new LockKeyError('No key from "secret:<headers.x-tenant>"', undefined, 'header x-tenant');
    expect((toHttpException(error) as HttpException).getResponse()).toEqual({
      statusCode: 400,
      error: 'Bad Request',
      message: 'The request does not name what it wants to use: header x-tenant is missing or not valid.',
      code: 'LOCK_KEY',
    });
  });

  it('has the status that the options give', () => {
    expect((toHttpException(busy, { busy: 409 }) as HttpException).getStatus()).toBe(409);
  });

  it.each([new LockConfigurationError('a mistake of the program'), new TypeError(), 'text', undefined])(
    'is nothing but itself when it is %p',
    (error) => {
      expect(toHttpException(error)).toBe(error);
    },
  );

  it('asks to come back in whole seconds, by the lease only where it is fixed, and never after a loss', () => {
    expect(retryAfterSeconds(busy)).toBe(1);
    expect(retryAfterSeconds(busy, 30_000)).toBe(12);
    expect(retryAfterSeconds(new LockWaitTimeoutError('a', 0, 'b', 3), 30_000)).toBe(1);
    expect(retryAfterSeconds(new LockWaitTimeoutError('a', 0, 'b', Infinity), 30_000)).toBe(30);
    expect(retryAfterSeconds(lost)).toBeUndefined();
  });
});

describe('the filter for lock errors', () => {
  const filter = new LockErrorFilter({} as never, {} as never);
  const host = (type: string, client?: unknown): ArgumentsHost =>
    ({
      getType: () => type,
      getArgs: () => [],
      switchToWs: () => ({ getClient: () => client }),
    }) as unknown as ArgumentsHost;

  it('answers a message handler with an Observable that fails with code and public message', async () => {
    const answer = filter.catch(busy, host('rpc')) as Observable<never>;
    await expect(firstValueFrom(answer)).rejects.toEqual({
      status: 'error',
      code: 'LOCK_WAIT_TIMEOUT',
      message: expect.not.stringContaining('secret'),
    });
  });

  it('tells a WebSocket client by an exception event, in the way of its library', () => {
    const sent: unknown[] = [];
    filter.catch(busy, host('ws', { emit: (...args: unknown[]) => sent.push(args) }));
    expect(sent).toEqual([
      ['exception', expect.objectContaining({ status: 'error', code: 'LOCK_WAIT_TIMEOUT' })],
    ]);
    filter.catch(
      busy,
      host('ws', { readyState: 1, send: (text: string) => sent.push(JSON.parse(text)), emit: () => false }),
    );
    expect(sent[1]).toEqual({
      event: 'exception',
      data: expect.objectContaining({ status: 'error', code: 'LOCK_WAIT_TIMEOUT' }),
    });
  });

  it('throws GraphQL an error with extensions.code, and an unknown transport the error itself', () => {
    expect(() => filter.catch(lost, host('graphql'))).toThrow(
      expect.objectContaining({ extensions: { code: 'LOCK_LOST' }, cause: lost }),
    );
    expect(() => filter.catch(lost, host('telegram'))).toThrow(lost);
  });

  it('tells nobody of a mistake of the program, except its log', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockReturnValue(undefined);
    const mistake = new LockConfigurationError('the inside');
    const hidden = { status: 'error', message: 'Internal server error' };
    await expect(firstValueFrom(filter.catch(mistake, host('rpc')) as Observable<never>)).rejects.toEqual(
      hidden,
    );
    expect(() => filter.catch(mistake, host('graphql'))).toThrow(
      expect.objectContaining({
        message: hidden.message,
        extensions: { code: 'INTERNAL_SERVER_ERROR' },
      }),
    );
    expect(logged.mock.calls).toEqual([[mistake], [mistake]]);
  });
});
