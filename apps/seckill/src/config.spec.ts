import { describe, expect, it } from '@jest/globals';
import { readConfig } from './config.js';

describe('readConfig', () => {
  it('needs nothing', () => {
    expect(readConfig({})).toEqual({
      host: '127.0.0.1',
      port: 3000,
      databaseUrl: undefined,
      redisUrl: undefined,
      watchdogTimeoutMs: undefined,
      waitMs: undefined,
      locked: true,
    });
  });

  it('reads every variable', () => {
    const env = {
      HOST: '127.0.0.2',
      PORT: '8080',
      DATABASE_URL: 'postgres://me@db/shop',
      REDIS_URL: 'redis://cache:6379',
      WATCHDOG_MS: '3000',
      WAIT_MS: '0',
      LOCK: 'off',
    };
    expect(readConfig(env)).toEqual({
      host: '127.0.0.2',
      port: 8080,
      databaseUrl: 'postgres://me@db/shop',
      redisUrl: 'redis://cache:6379',
      watchdogTimeoutMs: 3000,
      waitMs: 0,
      locked: false,
    });
  });

  it('names all that makes no sense at once', () => {
    const env = { PORT: '70000', REDIS_URL: 'cache:6379', DATABASE_URL: 'mysql://db', LOCK: 'no' };
    expect(() => readConfig(env)).toThrow(
      /PORT.*70000[^]*DATABASE_URL.*mysql[^]*REDIS_URL[^]*LOCK must be on or off/,
    );
  });
});
