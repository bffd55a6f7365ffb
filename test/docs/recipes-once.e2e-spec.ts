import type { PGlite } from '@electric-sql/pglite';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import type { SqlRow } from 'nestjs-distributed-lock/guard';
import { memoryResults, OnceModule, sqlResults } from 'nestjs-distributed-lock/once';
import { Pool } from 'pg';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { startApp } from '../nest/integration/stage.js';
import { failureOf } from '../support/lock-services.js';
import { Mailer } from './recipes/once-mailer.js';
import { Payments } from './recipes/once-payments.js';
import { Shop, ShopController } from './recipes/once-shop.js';

const open: Pick<INestApplication, 'close'>[] = [];
afterEach(() => Promise.all(open.splice(0).map((app) => app.close())));

const IN_MEMORY = [DistributedLockModule.forRoot(), OnceModule.forRoot({ results: memoryResults() })];

describe('run once, and remember the result', () => {
  it('a shop answers a repeated order with the first response', async () => {
    let orders = 0;
    const shop: Shop = { order: async () => ({ id: String(++orders) }) };
    const server = await startApp('express', {
      imports: IN_MEMORY,
      controllers: [ShopController],
      providers: [{ provide: Shop, useValue: shop }],
    });
    open.push(server.app);
    const post = (sku: string) =>
      server.fetch('/orders', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'k1' },
        body: JSON.stringify({ sku }),
      });
    expect(await (await post('a')).json()).toEqual({ id: '1' });
    const again = await post('a');
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await again.json()).toEqual({ id: '1' });
    expect((await post('b')).status).toBe(422);
  });

  it('a mail is sent one time', async () => {
    const module = await Test.createTestingModule({ imports: IN_MEMORY, providers: [Mailer] }).compile();
    open.push(await module.init());
    expect(await module.get(Mailer).welcome('7')).toBe('sent to 7');
    expect(await module.get(Mailer).welcome('7')).toBe('sent to 7');
  });

  describe('a payment and its result', () => {
    let database: PGlite;
    beforeAll(async () => {
      database = await openEmbeddedPostgres();
      await database.query('CREATE TABLE payments (id text, amount int)');
    }, 60_000);
    afterAll(() => database?.close());

    it('are committed together, one time', async () => {
      // The embedded database has one connection, which stands for each one of the pool.
      const query = (sql: string, parameters?: unknown[]) => database.query<SqlRow>(sql, parameters);
      const pool = { connect: async () => ({ query, release: () => undefined }) };
      const module = await Test.createTestingModule({
        imports: [DistributedLockModule.forRoot(), OnceModule.forRoot({ results: sqlResults(query) })],
        providers: [Payments, { provide: Pool, useValue: pool }],
      }).compile();
      open.push(await module.init());
      const payments = module.get(Payments);
      expect(await payments.pay('p1', 5)).toEqual({ paid: 5 });
      expect(await payments.pay('p1', 5)).toEqual({ paid: 5 });
      expect(await failureOf(payments.pay('p2', 'much' as never))).toMatchObject({
        message: expect.any(String),
      });
      expect((await database.query('SELECT id, amount FROM payments')).rows).toEqual([
        { id: 'p1', amount: 5 },
      ]);
    });
  });
});
