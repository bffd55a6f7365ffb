import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { SqlDialect } from 'nestjs-distributed-lock/guard';
import { startMariadbServer } from '#mariadb-server';
import { startPostgresServer } from '#postgres-server';
import { spawnGuarded, type GuardedChild } from '#processes';
import type { ServerName } from '#servers';
import { until } from '#until';
import type { OwnServer } from '../../tools/own-server/index.mjs';
import { describeWith } from './support/describe-with.js';
import { openConnection, type OwnConnection } from './support/own-transactions.js';
import { ownServer } from '../support/own-server.js';

const SCRIPT = fileURLToPath(new URL('held-until-commit.worker.mjs', import.meta.url));
const PROCESSES = 4;
/** Each has a lock, so that the others go on while one waits for a frozen transaction. */
const SHOPS = 3;
const ROUNDS = 12;
/** Each shop sells so often at least. */
const MIN_SALES = 5;
const LEASE_MS = 600;
/** The processes tell each of these at least once. */
const TOLD = ['LOCK_LOST', 'SIGKILL', 'SIGSTOP'];
/** A process tells this when the store takes longer than a third of the lease to answer, as on a busy machine. */
const MAY_TELL = 'LOCK_STORE';

/** One of each dialect: what MySQL does by itself is tried in held-until-commit.stores-spec.ts. */
const ENGINES: readonly (readonly [ServerName, SqlDialect, () => Promise<OwnServer>])[] = [
  ['postgres', 'postgres', startPostgresServer],
  ['mariadb', 'mysql', startMariadbServer],
];

/** Processes that sell, each row of goods under its lock. One that dies is replaced, and one that freezes wakes up too late. */
class Shops {
  readonly told = new Map<string, number>();
  errors = '';
  private readonly processes = new Set<GuardedChild>();
  private isClosed = false;

  constructor(
    private readonly url: string,
    private readonly dialect: SqlDialect,
  ) {}

  count(what: string): number {
    return this.told.get(what) ?? 0;
  }

  start(): void {
    const { url, dialect } = this;
    const options = JSON.stringify({ url, dialect, shops: SHOPS, leaseMs: LEASE_MS, faults: 0.2 });
    const started = spawnGuarded(process.execPath, [SCRIPT, options], { env: process.env, stdio: 'pipe' });
    const { child, exited } = started;
    this.processes.add(started);
    if (child.stdout)
      createInterface(child.stdout).on('line', (what) => this.onTold(what, child.pid as number));
    child.stderr?.on('data', (text: Buffer) => (this.errors += text.toString()));
    void exited.then(() => {
      this.processes.delete(started);
      if (!this.isClosed) this.start();
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const left = [...this.processes];
    for (const { child } of left) child.kill('SIGKILL');
    await Promise.all(left.map(({ exited }) => exited));
  }

  private onTold(what: string, pid: number): void {
    this.told.set(what, this.count(what) + 1);
    if (what !== 'SIGSTOP') return;
    setTimeout(() => this.isClosed || process.kill(pid, 'SIGCONT'), LEASE_MS * (1 + Math.random()));
  }
}

for (const [name, dialect, start] of ENGINES) {
  describeWith(name)(
    `transactions of ${PROCESSES} processes on ${name}, which die and freeze in any moment`,
    () => {
      const server = ownServer(start);
      let shops: Shops;
      let connection: OwnConnection;

      beforeAll(async () => {
        connection = await openConnection[dialect](server.url);
        await connection.run('CREATE TABLE shops (id int PRIMARY KEY, sold int)');
        for (let id = 0; id < SHOPS; id++) await connection.run(`INSERT INTO shops VALUES (${id}, 0)`);
        await connection.run('CREATE TABLE sales (shop int, number int, token bigint)');
        shops = new Shops(server.url, dialect);
      }, 60_000);
      afterAll(async () => {
        await shops?.close();
        connection?.cut();
      });

      it('lose no update, and none commits after a later holder of the lock', async () => {
        for (let i = 0; i < PROCESSES; i++) shops.start();
        const faults = () => shops.count('SIGKILL') + shops.count('SIGSTOP');
        const busyShops = async (): Promise<number> => {
          const counts = await connection.run('SELECT count(*) AS sales FROM sales GROUP BY shop');
          return counts.filter(({ sales }) => Number(sales) >= MIN_SALES).length;
        };
        // Some must wake up too late: they would write.
        const isEnough = () => faults() >= ROUNDS && TOLD.every((what) => shops.count(what) > 0);
        await until(async () => isEnough() && (await busyShops()) === SHOPS, 170_000);
        await shops.close();
        expect(shops.errors).toBe('');
        for (let id = 0; id < SHOPS; id++) {
          const sales = await connection.run(
            `SELECT number, token FROM sales WHERE shop = ${id} ORDER BY token`,
          );
          const numbers = sales.map(({ number }) => Number(number));
          expect(numbers.length).toBeGreaterThanOrEqual(MIN_SALES);
          expect(numbers).toEqual(numbers.map((_, i) => i + 1));
          expect(new Set(sales.map(({ token }) => String(token))).size).toBe(sales.length);
          expect(await connection.run(`SELECT sold FROM shops WHERE id = ${id}`)).toEqual([
            { sold: sales.length },
          ]);
        }
        expect([...shops.told.keys()].filter((what) => what !== MAY_TELL).sort()).toEqual(TOLD);
      }, 180_000);
    },
  );
}
