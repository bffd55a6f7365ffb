import { afterEach, expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { startPostgresServer } from '#postgres-server';
import { until } from '#until';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';
import { PATIENT } from '../../support/patient.js';
import { describeWith } from '../support/describe-with.js';
import { openHandles } from '../orms/lock-handles.js';
import { ownServer } from '../../support/own-server.js';

describeWith('postgres')('locks over a query function of', () => {
  const server = ownServer(startPostgresServer);
  afterEach(closeServices);

  it.each(Object.entries(openHandles))('%s', async (name, openHandle) => {
    const opened = await openHandle(server.url);
    const { handle } = opened;
    try {
      const table = `locks_${name.toLowerCase()}`;
      const [one, other] = [1, 2].map(() => openServiceOn(postgresStore(handle, { table, ...PATIENT })));
      const lock = await one!.acquire("it's ? $1 {x}");
      expect(await other!.tryAcquire("it's ? $1 {x}")).toBeNull();
      const waiting = other!.acquire("it's ? $1 {x}", { waitMs: 10_000 });
      await until(async () => (await one!.inspect("it's ? $1 {x}"))?.pending.length === 1);
      expect(await lock.release()).toBe('released');
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      await next.release();
      const keys = Array.from({ length: 20 }, (_, i) => `many:${i}`);
      await Promise.all(keys.map((key) => one!.withLock(key, () => undefined)));
      await (await one!.acquire(keys)).release();
      await closeServices();
    } finally {
      await opened.close();
    }
  });

  it.each(Object.entries(openHandles))(
    '%s, whose errors keep the code of the server',
    async (_, openHandle) => {
      const opened = await openHandle(server.url);
      const { handle } = opened;
      try {
        const service = openServiceOn(postgresStore(handle, { table: 'none.nest_lock' }));
        expect(String(await failureOf(service.tryAcquire('k')))).toMatch(/cannot make it \(3F000\)/);
        await closeServices();
      } finally {
        await opened.close();
      }
    },
  );
});
