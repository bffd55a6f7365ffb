import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import mysql from 'mysql2/promise';
import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { ClockShift, missingShift } from '../../chaos/index.mjs';
import { within } from '../../apps/seckill/src/preflight/within.js';
import { describeWith } from './support/describe-with.js';

const HOUR_MS = 3_600_000;

const whereClocksShift = missingShift() ? describe.skip : describe;
const settings = { max_connections: 12 };

for (const [name, title, start] of [
  ['mysql', 'the MySQL server for tests', startMysqlServer],
  ['mariadb', 'the MariaDB server for tests', startMariadbServer],
] as const) {
  describeWith(name)(title, () => {
    let server: Awaited<ReturnType<typeof start>>;

    beforeAll(async () => {
      server = await start({ settings });
    }, 60_000);
    afterAll(() => server?.stop());

    const connected = async () => {
      const client = await mysql.createConnection(server.url);
      client.on('error', () => undefined);
      return client;
    };

    it('is what its name says, with the settings given', async () => {
      const client = await connected();
      const [rows] = await client.query('SELECT @@max_connections AS most, VERSION() AS version');
      expect(rows).toEqual([{ most: 12, version: expect.stringMatching(/^\d/) }]);
      expect(JSON.stringify(rows).includes('MariaDB')).toBe(name === 'mariadb');
      await client.end();
    });

    it('answers nothing while it is paused, on old connections and new ones, and all of it once resumed', async () => {
      const client = await connected();
      await server.pause();
      const old = client.query('SELECT 1 AS one');
      const another = connected();
      await expect(within(300, Promise.race([old, another]))).rejects.toThrow('no answer within');
      await server.resume();
      expect((await old)[0]).toEqual([{ one: 1 }]);
      await Promise.all([client.end(), (await another).end()]);
    });

    it('keeps what was committed, and only that, when it is killed in the middle of a statement', async () => {
      const [client, other] = [await connected(), await connected()];
      await client.query('CREATE TABLE kept (id int)');
      await client.query('INSERT INTO kept VALUES (1)');
      await other.query('BEGIN');
      await other.query('INSERT INTO kept VALUES (2)');
      const sleeping = client.query('SELECT SLEEP(60)').catch(() => 'ended');
      await server.kill();
      expect(await within(5_000, sleeping)).toBe('ended');
      await expect(connected()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
      await server.restart();
      const later = await connected();
      expect((await later.query('SELECT id FROM kept'))[0]).toEqual([{ id: 1 }]);
      await later.end();
    });

    it('can be killed while it is paused, and be stopped twice', async () => {
      await server.pause();
      await server.restart();
      await (await connected()).end();
      await server.pause();
      await server.stop();
      await server.stop();
      await expect(connected()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    });

    whereClocksShift('whose time of day is shifted', () => {
      it('tells the shifted time on connections that are open', async () => {
        const shift = new ClockShift();
        const shifted = await start({ env: shift.env });
        const client = await mysql.createConnection(shifted.url);
        const hoursAhead = async () => {
          const [rows] = await client.query('SELECT CAST(UNIX_TIMESTAMP() AS DOUBLE) * 1000 AS now');
          return ((rows as { now: number }[])[0]!.now - Date.now()) / HOUR_MS;
        };
        expect(await hoursAhead()).toBeCloseTo(0);
        shift.set(-HOUR_MS);
        expect(await hoursAhead()).toBeCloseTo(-1);
        await client.end();
        await shifted.stop();
        shift.remove();
      });
    });
  });
}
