import { createHook } from 'node:async_hooks';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, Param, Post, UseInterceptors } from '@nestjs/common';
import type { CallHandler, INestApplication, NestInterceptor } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { Observable } from 'rxjs';
import { DistributedLockModule } from '../distributed-lock.module.js';
import type { LockStore, LockStoreFactory } from '../port/lock-store.js';
import { memoryStore } from '../memory/store.js';
import { Locked } from './locked.decorator.js';

/** The promises that a request may cost more for its lock than for an interceptor that does nothing. */
const MAX_PROMISES = 7;

/** Grants and releases at once, by promises that were made before, so that only those of the library are counted. */
const GRANTED = Promise.resolve({
  kind: 'granted' as const,
  token: 1,
  lastToken: 1_000_000,
  validUntil: Number.MAX_SAFE_INTEGER,
  waiting: 0,
  confirmed: true,
});
const RELEASED = Promise.resolve('released' as const);
const instantStore: LockStoreFactory = {
  create: (context) =>
    Object.assign(Object.create(memoryStore().create(context)) as LockStore, {
      acquire: () => GRANTED,
      release: () => RELEASED,
    }),
};

class Nothing implements NestInterceptor {
  intercept(_context: unknown, next: CallHandler): Observable<unknown> {
    return next.handle();
  }
}

@Controller()
class Offers {
  @Post('plain/:id')
  @UseInterceptors(Nothing)
  async plain(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Post('template/:id')
  @Locked('offers:<id>')
  async template(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Post('part/:id')
  @Locked('offers:<params.id>:<headers.host>')
  async part(): Promise<string> {
    return 'part';
  }

  @Post('function/:id')
  @Locked((id: string, body?: object) => `offers:${id}:${typeof body}`, {
    when: (id: string) => id !== 'free',
  })
  async function(@Param('id') id: string, @Body() _body?: object): Promise<string> {
    return id;
  }
}

let app: INestApplication;
let port: number;
let count = 0;
const hook = createHook({
  init: (_id, type) => {
    if (type === 'PROMISE') count += 1;
  },
});

/**
 * The promises that one request makes: the fewest of several. The first requests compile routes and make plans, and on a busy
 * machine a request may arrive in parts.
 */
async function promisesOf(path: string): Promise<number> {
  let made = Infinity;
  for (let i = 0; i < 8; i++) {
    const asked = request({ port, path, method: 'POST' });
    const answered = once(asked, 'response');
    count = 0;
    hook.enable();
    asked.end();
    const [answer] = (await answered) as [IncomingMessage];
    answer.resume();
    await once(answer, 'end');
    await new Promise((resolve) => setImmediate(resolve));
    hook.disable();
    made = Math.min(made, count);
    expect(answer.statusCode).toBe(201);
  }
  return made;
}

describe('a request to a locked handler', () => {
  beforeAll(async () => {
    const imports = [DistributedLockModule.forRoot({ store: instantStore })];
    const module = await Test.createTestingModule({ imports, controllers: [Offers] }).compile();
    app = module.createNestApplication({ logger: false });
    await app.listen(0, '127.0.0.1');
    ({ port } = (app.getHttpServer() as Server).address() as AddressInfo);
  });
  afterAll(() => app.close());

  it('makes few promises more than an interceptor that does nothing, whatever its key is made of', async () => {
    const plain = await promisesOf('/plain/1');
    const keys = ['template', 'part', 'function'];
    const more: number[] = [];
    for (const key of keys) more.push((await promisesOf(`/${key}/1`)) - plain);
    expect(plain).toBeGreaterThan(10);
    expect(Math.max(...more)).toBeLessThanOrEqual(MAX_PROMISES);
  });
});
