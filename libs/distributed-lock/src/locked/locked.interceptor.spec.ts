import { expect, it } from '@jest/globals';
import { Controller, Param, Post, UseInterceptors } from '@nestjs/common';
import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { finalize, type Observable } from 'rxjs';
import request from 'supertest';
import { DistributedLockModule } from '../distributed-lock.module.js';
import { LockService } from '../lock/lock.service.js';
import { Locked } from './locked.decorator.js';

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

it('a locked route that needs no lock once leaves what its flow does later to ask for itself', async () => {
  const imports = [DistributedLockModule.forRoot()];
  const module = await Test.createTestingModule({ imports, controllers: [OffersController] }).compile();
  const app = await module.createNestApplication({ logger: false }).init();
  const answer = await request(app.getHttpServer()).post('/offers/free');
  expect(answer.text).toBe('without a lock');
  expect(await AgainInterceptor.again).toBe('under its lock');
  await app.close();
});
