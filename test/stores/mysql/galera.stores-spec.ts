import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService, LockServiceOptions } from 'nestjs-distributed-lock';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import mysql, { type Connection } from 'mysql2/promise';
import { startGaleraCluster } from '#galera-cluster';
import { until } from '#until';
import { ClockShift, missingShift } from '../../../verification/chaos/index.mjs';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';
import { ownServer } from '../../support/own-server.js';
import { PATIENT } from '../../support/patient.js';
import { describeCrowd } from '../support/crowd.contract.js';
import { describeWith } from '../support/describe-with.js';

const HOUR_MS = 3_600_000;
const whereClocksShift = missingShift() ? describe.skip : describe;

describeWith('galera')('processes on the three nodes of a Galera cluster', () => {
  let shift: ClockShift | undefined;
  beforeAll(() => {
    if (missingShift() === undefined) shift = new ClockShift();
  }, 60_000);
  // The node with the last id may be given another time of day.
  const cluster = ownServer(() => startGaleraCluster({ envOf: (id) => (id === 3 && shift?.env) || {} }));
  afterAll(() => shift?.remove());
  /** A store on this node, counted in a circle. */
  const storeOn = (node: number) => mysqlStore(cluster.members[node % 3]!.url, PATIENT);
  let clients = 0;
  describeBackEndCases('galera', () => ({
    store: { ...storeOn(0), create: (context) => storeOn(clients++).create(context) },
  }));

  let admins: readonly Connection[];
  let count = 0;
  let key: string;
  beforeAll(async () => {
    admins = await Promise.all(cluster.members.map(({ url }) => mysql.createConnection(url)));
    for (const admin of admins) admin.on('error', () => undefined);
    // Created on one node. Nodes that create it at the same time wait for each other.
    await openOn(0).withLock('warm', { waitMs: 20_000 }, () => undefined);
  }, 60_000);
  beforeEach(() => void (key = `key-${(count += 1)}`));
  afterEach(closeServices);
  afterAll(() => admins?.forEach((admin) => admin.destroy()));

  function openOn(node: number, options: Omit<Partial<LockServiceOptions>, 'store'> = {}): LockService {
    return openServiceOn(storeOn(node), options);
  }
  async function statusOf(node: number, name: string): Promise<unknown> {
    const sql = `SHOW STATUS LIKE '${name}'`;
    return (await admins[node]!.query<mysql.RowDataPacket[]>(sql))[0][0]!['Value'];
  }
  const untilWarm = (services: readonly LockService[]) =>
    Promise.all(services.map((service) => service.inspect(key)));

  describeCrowd(
    () => openOn(clients++),
    () => key,
    {},
  );

  it('write one version of a row at the same time: one of them has written it', async () => {
    await admins[0]!.query('CREATE TABLE swaps (id INT PRIMARY KEY, version BIGINT) ENGINE = InnoDB');
    await admins[0]!.query('INSERT INTO swaps VALUES (1, 0)');
    const wins = new Set<number>();
    const write = async ({ url }: { readonly url: string }) => {
      const connection = await mysql.createConnection(url);
      await connection.query('SET SESSION wsrep_sync_wait = 1');
      await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
      while (wins.size < 300) {
        const [[row]] = await connection.query<mysql.RowDataPacket[]>('SELECT version FROM swaps');
        const version = Number(row!['version']);
        const swap = `UPDATE swaps SET version = version + 1 WHERE id = 1 AND version = ${version}`;
        const written = await connection.query<mysql.ResultSetHeader>(swap).catch(() => undefined);
        if (written?.[0].affectedRows !== 1) continue;
        expect(wins.has(version)).toBe(false);
        wins.add(version);
      }
      connection.destroy();
    };
    const { members } = cluster;
    await Promise.all([...members, ...members].map(write));
    await admins[2]!.query('SET SESSION wsrep_sync_wait = 1');
    const [[row]] = await admins[2]!.query<mysql.RowDataPacket[]>('SELECT version FROM swaps');
    expect(Number(row!['version'])).toBe(wins.size);
  }, 60_000);

  it('wait with a read until their node has what another node has committed before', async () => {
    const [writer, reader] = [openOn(0), openOn(1)];
    await untilWarm([writer, reader]);
    // This node applies nothing until it is unlocked.
    await admins[1]!.query('FLUSH TABLES WITH READ LOCK');
    let isRead = false;
    const lock = await writer.acquire(key);
    const reading = reader.isHeld(key).finally(() => (isRead = true));
    // Its reply would be here by then.
    for (let turn = 0; turn < 20; turn++) await admins[1]!.query('DO SLEEP(0.01)');
    const wasRead = isRead;
    await admins[1]!.query('UNLOCK TABLES');
    expect(await reading).toBe(true);
    expect(wasRead).toBe(false);
    await lock.release();
  }, 30_000);

  it('lose no lock and go on when a node is killed, and those of this node when it is back', async () => {
    const [first, second, third] = [0, 1, 2].map((node) => openOn(node, { waitMs: 20_000 }));
    await untilWarm([first!, second!, third!]);
    const locks = await Promise.all([first!, second!, third!].map((it, i) => it.acquire(`${key}:${i}`)));
    await cluster.members[2]!.kill();
    expect(await second!.withLock(key, () => 'done')).toBe('done');
    await cluster.members[2]!.restart();
    await cluster.untilHealthy();
    await until(() => third!.withLock(key, () => true).catch(() => false));
    expect(locks.map(({ signal }) => signal.aborted)).toEqual([false, false, false]);
    const tokens = [];
    for (const service of [first!, second!, third!])
      tokens.push(await service.withLock(key, ({ fencingToken }) => fencingToken));
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(await Promise.all(locks.map((lock) => lock.release()))).toEqual(Array(3).fill('released'));
  }, 60_000);

  it('on a node that was cut off from the others get no lock, and the error says so', async () => {
    const [here, there] = [openOn(0, { waitMs: 20_000 }), openOn(1)];
    await untilWarm([here, there]);
    const isolate = (value: 0 | 1) =>
      admins[1]!.query(`SET GLOBAL wsrep_provider_options = 'gmcast.isolate=${value}'`);
    await isolate(1);
    await until(async () => (await statusOf(1, 'wsrep_cluster_status')) === 'non-Primary', 60_000);
    expect(await failureOf(there.acquire(key, { waitMs: 0 }))).toMatchObject({
      code: 'LOCK_STORE',
      message: expect.stringContaining('This node is cut off from the others'),
    });
    await here.withLock(key, () => undefined);
    await isolate(0);
    await cluster.untilHealthy();
    await until(() => there.withLock(key, () => true).catch(() => false));
  }, 120_000);

  whereClocksShift('whose clocks differ', () => {
    it('a node whose clock is ahead ends the leases of all nodes too early, and the holder is told by its next request', async () => {
      const [holder, other] = [openOn(0), openOn(2)];
      await untilWarm([holder, other]);
      const lock = await holder.acquire(key, { leaseMs: HOUR_MS / 2 });
      expect(await other.tryAcquire(key)).toBeNull();
      shift!.set(HOUR_MS);
      const early = await other.acquire(key);
      expect(early.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await lock.release()).toBe('lost');
      expect(await early.release()).toBe('released');
      shift!.set(0);
    }, 60_000);
  });
});
