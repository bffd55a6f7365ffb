import { Controller, Get, Injectable, Param } from '@nestjs/common';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DistributedLockModule, Locked, LockService, type HoldSnapshot } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { ownRedis } from '../support/own-redis.js';
import { until } from '#until';

@Injectable()
class Stock {
  constructor(private readonly locks: LockService) {}

  @Locked('stock:<id>')
  async take(id: string): Promise<readonly HoldSnapshot[]> {
    return id === '' ? [] : this.locks.held();
  }

  @Locked('count', { site: 'the nightly count' })
  async count(): Promise<readonly HoldSnapshot[]> {
    return this.locks.held();
  }
}

@Controller()
class GoodsController {
  constructor(private readonly stock: Stock) {}

  @Get(':id')
  @Locked('goods:<id>')
  purchase(@Param('id') id: string): Promise<readonly HoldSnapshot[]> {
    return this.stock.take(id);
  }
}

describe('an application that is asked what it holds', () => {
  const redis = ownRedis('held');
  let app: INestApplication;
  beforeEach(async () => {
    const options = { store: redisStore(redis.url), application: 'shop', logger: false, shutdownGraceMs: 0 };
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot(options)],
      controllers: [GoodsController],
      providers: [Stock],
    }).compile();
    app = module.createNestApplication({ logger: false });
    await app.listen(0);
  });
  afterEach(() => app.close());

  it('names the method behind each lock, or the site that its decorator gives', async () => {
    const answer = await fetch(`${await app.getUrl()}/7`);
    const held = (await answer.json()) as HoldSnapshot[];
    expect(held.map(({ key, site }) => [key, site])).toEqual([
      ['goods:7', 'GoodsController.purchase'],
      ['stock:7', 'Stock.take'],
    ]);
    expect(await app.get(Stock).count()).toMatchObject([{ key: 'count', site: 'the nightly count' }]);
  });

  it('has told Redis which process each of its connections belongs to', async () => {
    await app.get(LockService).withLock(redis.key, () => undefined);
    const named = async () => {
      const list = (await redis.eyes.client.client('LIST')) as string;
      return list
        .split('\n')
        .filter((line) => /name=locks\/shop\/[\w.-]+\/(\d+) /.exec(line)?.[1] === `${process.pid}`);
    };
    await until(async () => (await named()).length >= 2);
    expect(await named()).toHaveLength(2);
  });
});
