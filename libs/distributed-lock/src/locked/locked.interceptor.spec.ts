import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  HttpException,
  Param,
  Post,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { finalize, type Observable } from 'rxjs';
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

/** Calls the method again from the flow of a request that is over. */
class AgainInterceptor implements NestInterceptor {
  static again: Promise<string> | undefined;

  constructor(private readonly offers: () => OffersController) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      finalize(() => {
        const over = new Promise((resolve) => setImmediate(resolve));
        AgainInterceptor.again ??= over.then(() => this.offers().offer('locked'));
      }),
    );
  }
}

const offers: OffersController[] = [];

@Controller('offers')
class OffersController {
  constructor(private readonly locks: LockService) {
    offers.push(this);
  }

  @Post(':id')
  @Locked('offers:<id>', { when: (id: string) => id !== 'free' })
  @UseInterceptors(new AgainInterceptor(() => offers[0] as OffersController))
  async offer(@Param('id') id: string): Promise<string> {
    return this.locks.current(`offers:${id}`) ? 'under its lock' : 'without a lock';
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

  it('that needs no lock once leaves what its flow does later to ask for itself', async () => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot()],
      controllers: [OffersController],
    }).compile();
    app = await module.createNestApplication({ logger: false }).init();
    const answer = await request(app.getHttpServer()).post('/offers/free');
    expect(answer.text).toBe('without a lock');
    expect(await AgainInterceptor.again).toBe('under its lock');
  });
});
