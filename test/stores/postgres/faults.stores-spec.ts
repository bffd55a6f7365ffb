import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { until } from '#until';
import { elapsed, failureOf, holdAndWait } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { describeFaults } from '../support/faults.contract.js';
import { ownPostgres } from './support/own-postgres.js';
import { StatementCounts } from './support/statement-counts.js';

const COMMAND_MS = 500;
const SLACK_MS = 900;

describeWith('postgres')('a service on PostgreSQL, when something fails', () => {
  const postgres = ownPostgres();

  const backends = `SELECT pid FROM pg_stat_activity WHERE application_name = 'nestjs-distributed-lock'`;
  const works = async (service: LockService) => {
    await service.withLock(postgres.key, { waitMs: 5000 }, () => undefined);
  };

  describeFaults({
    product: 'PostgreSQL',
    get server() {
      return postgres.server;
    },
    get key() {
      return postgres.key;
    },
    open: () => postgres.openProxied(),
    disconnect: () => postgres.run(`SELECT pg_terminate_backend(pid) FROM (${backends}) AS own`),
    reconnect: () => postgres.connect(),
    nowhere: postgresStore('postgres://nobody@127.0.0.1:1/none'),
  });

  it('grants nobody by a take that the server executes after its release', async () => {
    const service = await postgres.openProxied();
    const link = postgres.proxy.commands;
    link.requests.hold();
    expect(await failureOf(service.tryAcquire(postgres.key))).toMatchObject({ reason: 'unknown' });
    // The release goes on over a new connection until it is certain.
    await service.close();
    const row = () => postgres.run('SELECT state, version FROM nest_lock WHERE name = $1', [postgres.key]);
    const before = await row();
    link.deliverLate();
    await until(async () => (await postgres.run(backends)).length === 0);
    expect(await row()).toEqual(before);
  });

  it('gets its grants by polling when the connection for notifications broke, until it listens again', async () => {
    const holder = postgres.open();
    const service = await postgres.openProxied();
    const { lock, waiting } = await holdAndWait(holder, service, postgres.key);
    postgres.proxy.pushes.reset();
    expect(await lock.release()).toBe('released');
    await (await waiting).release();
  });

  it('gets a grant by its next recheck when the connection for notifications is silent', async () => {
    const holder = postgres.open();
    const service = await postgres.openProxied();
    const { lock, waiting } = await holdAndWait(holder, service, postgres.key);
    postgres.proxy.pushes.vanish();
    await lock.release();
    expect(await elapsed(waiting)).toBeLessThan(1000 + COMMAND_MS + SLACK_MS);
    await (await waiting).release();
  });

  it('keeps listening where the server ends idle sessions', async () => {
    await postgres.run(`ALTER DATABASE postgres SET idle_session_timeout = '1s'`);
    try {
      const service = await postgres.openProxied();
      const sessions = () => postgres.run<{ pid: number }>(`${backends} ORDER BY pid`);
      const before = await sessions();
      const idle = `SELECT FROM (${backends.replace('pid', 'pid, state_change')}) AS own
        WHERE state_change > clock_timestamp() - interval '2 s'`;
      await until(async () => (await postgres.run(idle)).length === 0);
      expect(await sessions()).toEqual(before);
      await works(service);
    } finally {
      await postgres.run('ALTER DATABASE postgres RESET idle_session_timeout');
    }
  });

  it('makes the table again when it was dropped', async () => {
    const service = await postgres.openProxied();
    await postgres.run('DROP TABLE nest_lock');
    await works(service);
    expect(await postgres.run('SELECT name FROM nest_lock')).toEqual([{ name: postgres.key }]);
  });

  it('reads a row that is too long for a notification', async () => {
    const services = Array.from({ length: 3 }, () => postgres.open());
    const [holder, ...others] = services as [LockService, ...LockService[]];
    const lock = await holder.acquire(postgres.key);
    const waiting = Array.from({ length: 120 }, (_, i) =>
      others[i % 2]!.withLock(postgres.key, { waitMs: 20_000, fair: true }, () => undefined),
    );
    await until(async () => (await holder.inspect(postgres.key))?.pending.length === 120);
    const [row] = await postgres.run<{ length: number }>(
      'SELECT length(state) + length(notes) AS length FROM nest_lock WHERE name = $1',
      [postgres.key],
    );
    expect(row?.length).toBeGreaterThan(8000);
    await lock.release();
    // A recheck for each hand-off would take a second each.
    expect(await elapsed(Promise.all(waiting))).toBeLessThan(15_000);
  }, 30_000);

  it('reads the row when a notification has its name only', async () => {
    const counts = new StatementCounts(postgres.proxy);
    const holder = postgres.open();
    const service = await postgres.openProxied();
    const { lock, waiting } = await holdAndWait(holder, service, postgres.key);
    const channel = await channelOf(postgres.key);
    const before = counts.statements;
    const payload = JSON.stringify([postgres.key]);
    for (let i = 0; i < 20; i++) await postgres.run('SELECT pg_notify($1, $2)', [channel, payload]);
    // A recheck a second would need ten seconds.
    await until(() => counts.statements - before >= 10, 3000);
    expect(await lock.release()).toBe('released');
    await (await waiting).release();
  });

  it('believes no notification that no statement of the library has written', async () => {
    const holder = postgres.open();
    const service = await postgres.openProxied();
    const { lock, waiting } = await holdAndWait(holder, service, postgres.key);
    const channel = await channelOf(postgres.key);
    for (const payload of [
      'x',
      '[]',
      '{}',
      '[1]',
      'null',
      JSON.stringify([postgres.key, 1, '[', 0, 0, '', 1]),
    ]) {
      await postgres.run('SELECT pg_notify($1, $2)', [channel, payload]);
    }
    let isIn = false;
    void waiting.then(() => (isIn = true));
    await holder.withLock(`${postgres.key}:other`, () => undefined);
    expect(isIn).toBe(false);
    await lock.release();
    await (await waiting).release();
  });

  it('lets nobody in by a notification that names the waiter as holder and was written by somebody who cannot read the table', async () => {
    const holder = postgres.open();
    const service = postgres.open();
    const lock = await holder.acquire(postgres.key);
    const waiting = service.acquire(postgres.key, { waitMs: 10_000 });
    const pendingOf = async () => (await holder.inspect(postgres.key))?.pending ?? [];
    await until(async () => (await pendingOf()).length === 1);
    const [waiter] = await pendingOf();
    const now = Date.now() * 1000;
    const forged = [1, [[waiter, 'l', now, now, '+30000']], []];
    const payload = [postgres.key, now + 60e6, JSON.stringify(forged), now, now, '', now];
    const channel = `nest_lock_${String(waiter).split(':')[0]?.replaceAll('-', '')}`;
    let isIn = false;
    void waiting.then(() => (isIn = true));
    for (let i = 0; i < 5; i++) {
      await postgres.run('SELECT pg_notify($1, $2)', [channel, JSON.stringify(payload)]);
      await service.withLock(`${postgres.key}:other`, () => undefined);
    }
    expect(isIn).toBe(false);
    await lock.release();
    await (await waiting).release();
  });

  it('does not wait for ever for one of its connections when the server has none left', async () => {
    await postgres.run('ALTER ROLE postgres CONNECTION LIMIT -1');
    await postgres.run('CREATE ROLE few LOGIN CONNECTION LIMIT 0');
    const service = postgres.open(postgres.url.replace('postgres@', 'few@'));
    expect(await failureOf(service.acquire(postgres.key, { waitMs: 0 }))).toMatchObject({
      reason: 'unready',
      message: expect.stringContaining('max_connections'),
    });
    await postgres.run('ALTER ROLE few CONNECTION LIMIT 5');
    await postgres.run('GRANT ALL ON nest_lock TO few');
    await works(service);
  });

  async function channelOf(key: string): Promise<string> {
    const [row] = await postgres.run<{ text: string }>(
      'SELECT coalesce(state, $2) || notes AS text FROM nest_lock WHERE name = $1',
      [key, ''],
    );
    const owners = [...(row?.text ?? '').matchAll(/"([0-9a-f-]{36}):/g)].map(
      ([, client]) => client as string,
    );
    return `nest_lock_${owners.at(-1)!.replaceAll('-', '')}`;
  }
});
