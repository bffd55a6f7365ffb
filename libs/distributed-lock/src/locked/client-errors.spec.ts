import { describe, expect, it } from '@jest/globals';
import { HttpException, type ArgumentsHost } from '@nestjs/common';
import {
  LockConfigurationError,
  LockKeyError,
  LockLostError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../port/lock.errors.js';
import { LockErrorFilter } from './error-filters.js';
import { retryAfterSeconds, toHttpException } from './client-errors.js';

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

  it('asks to come back when the store or the instance is away, and not where the store will refuse again', () => {
    const storeError = (reason: LockStoreError['reason']) => new LockStoreError('away', 'k', reason);
    expect(retryAfterSeconds(storeError('unreachable'), 30_000)).toBe(1);
    expect(retryAfterSeconds(storeError('unknown'))).toBe(1);
    expect(retryAfterSeconds(storeError('refused'))).toBeUndefined();
    expect(retryAfterSeconds(new LockShutdownError('closing', 'k'))).toBe(1);
  });
});

it('the filter throws a transport that it does not know the error itself', () => {
  const host = { getType: () => 'telegram' } as ArgumentsHost;
  expect(() => new LockErrorFilter({} as never, {} as never).catch(lost, host)).toThrow(lost);
});
