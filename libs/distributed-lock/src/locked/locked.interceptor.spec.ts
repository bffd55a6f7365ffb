import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, HttpException, Post, type INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import request from 'supertest';
import { DistributedLockModule } from '../distributed-lock.module.js';
import { LockService } from '../lock/lock.service.js';
import { Locked } from './locked.decorator.js';

@Controller()
class GoodsController {
  @Post()
  @Locked('goods')
  async purchase(): Promise<string> {
    return 'sold';
  }
}

describe('a locked route', () => {
  let app: INestApplication | undefined;
  afterEach(() => app?.close());

  it("leaves the line by the signal among the module's defaults", async () => {
    const closing = new AbortController();
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot({ defaults: { signal: closing.signal } })],
      controllers: [GoodsController],
    }).compile();
    app = await module.createNestApplication({ logger: false }).init();
    const locks = app.get(LockService);
    const held = await locks.acquire('goods');
    locks.events$.subscribe(({ type }) => {
      if (type === 'asked') queueMicrotask(() => closing.abort(new HttpException('Closing', 503)));
    });
    const answer = await request(app.getHttpServer()).post('/');
    expect(answer.status).toBe(503);
    await held.release();
  });
});
