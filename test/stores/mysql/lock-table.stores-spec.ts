import { expect, it } from '@jest/globals';
import { lockTableSql } from 'nestjs-distributed-lock/mysql';
import { until } from '#until';
import { closeServices, failureOf } from '../../support/lock-services.js';
import { describeOnBothServers } from './support/on-both-servers.js';

const COLUMNS = `name VARBINARY(2048) NOT NULL PRIMARY KEY, writer BIGINT NOT NULL, version BIGINT NOT NULL,
  state MEDIUMTEXT, last BIGINT NOT NULL, at BIGINT NOT NULL, notes MEDIUMTEXT NOT NULL`;
const made = 'CREATE TABLE odd';
const madeWith = (from: string, to: string) => `${made} (${COLUMNS.replace(from, to)})`;
const plain = madeWith('', '');
const likeIt = lockTableSql('mysql', 'likeness');

describeOnBothServers('mysqlStore', (stage) => {
  it.each([
    ['a copy without its key', `${likeIt}; ${made} AS SELECT * FROM likeness`, 'name is not its primary'],
    [
      'a table with another key',
      madeWith('PRIMARY KEY', ', id INT AUTO_INCREMENT PRIMARY KEY'),
      'name is not its',
    ],
    ['a key of some bytes', madeWith(' PRIMARY KEY', ', UNIQUE (name(8))'), 'not its primary or unique key'],
    ['one more unique key', `${plain}; CREATE UNIQUE INDEX few ON odd (state(9))`, 'unique key few'],
    ['a name without case', madeWith('VARBINARY(2048)', 'VARCHAR(500)'), 'varchar(500) and not varbinary'],
    ['a name that is too short', madeWith('(2048)', '(255)'), 'name is varbinary(255)'],
    ['a name of fixed length', madeWith('VARBINARY(2048)', 'BINARY(200)'), 'name is binary(200)'],
    [
      'a state that is too short',
      madeWith('state MEDIUMTEXT', 'state VARCHAR(500)'),
      'state is varchar(500)',
    ],
    ['a state that is never NULL', madeWith('MEDIUMTEXT', 'MEDIUMTEXT NOT NULL'), 'state must be NULL'],
    ['small numbers', madeWith('version BIGINT', 'version INT'), /version is int(\(11\))? and not bigint/],
    ['inexact numbers', madeWith('last BIGINT', 'last DOUBLE'), 'last is double and not bigint'],
    ['a column less', madeWith('writer BIGINT NOT NULL, ', ''), 'it lacks writer bigint'],
    [
      'a column that must be given',
      madeWith('KEY', 'KEY, shop INT NOT NULL'),
      'its column shop has no default',
    ],
    [
      'a table without transactions',
      `${madeWith('(2048)', '(900)')} ENGINE = MyISAM`,
      'myisam and not InnoDB',
    ],
    ['a table of partitions', `${plain} PARTITION BY KEY (name) PARTITIONS 2`, 'it is partitioned'],
    ['a view', `${likeIt}; CREATE VIEW odd AS SELECT * FROM likeness`, 'it is a view'],
  ])(
    'refuses %s at the start, with the reason and the statement that makes a lock table',
    async (_title, sql, says) => {
      for (const statement of sql.split(';')) await stage.admin.query(statement);
      const service = stage.service({}, { table: 'odd' });
      const failure = (await failureOf(service.acquire(stage.key, { waitMs: 0 }))) as Error;
      expect(failure).toMatchObject({ code: 'LOCK_CONFIGURATION' });
      expect(failure.message).toMatch(says);
      expect(failure.message).toContain('CREATE TABLE IF NOT EXISTS `odd`');
      // A store that goes on would make the table.
      await closeServices();
      await stage.admin.query('DROP TABLE IF EXISTS odd, likeness');
      await stage.admin.query('DROP VIEW IF EXISTS odd');
    },
  );

  it('takes a table with columns of its owner, if they may stay empty, and with the key on another index', async () => {
    const own = 'id BIGINT AUTO_INCREMENT PRIMARY KEY, shop INT, made TIMESTAMP NOT NULL DEFAULT NOW()';
    await stage.admin.query('DROP TABLE IF EXISTS odd');
    await stage.admin.query(madeWith(' PRIMARY KEY', `, ${own}, UNIQUE (name)`));
    const service = stage.service({}, { table: 'odd' });
    const lock = await service.acquire(stage.key);
    await lock.release();
    expect(await service.withLock(stage.key, ({ fencingToken }) => fencingToken)).toBeGreaterThan(
      lock.fencingToken,
    );
  });

  it.each([
    ['is made again without its key', ['DROP TABLE odd', madeWith(' PRIMARY KEY', '')]],
    ['loses its key', ['ALTER TABLE odd DROP PRIMARY KEY']],
  ])(
    'lets one hold at a time when its table %s while processes are connected',
    async (_title, statements) => {
      await stage.admin.query('DROP TABLE IF EXISTS odd');
      const services = [1, 2, 3].map(() => stage.service({}, { table: 'odd' }));
      for (const service of services) await (await service.acquire('warm')).release();
      for (const statement of statements) await stage.admin.query(statement);
      const asked = await Promise.all(
        services.map((service) => service.tryAcquire(stage.key).catch((error: Error) => error)),
      );
      const isHeld = asked.map((answer) => answer !== null && !(answer instanceof Error));
      expect(isHeld.filter(Boolean).length).toBeLessThanOrEqual(1);
      const [refused] = services.filter((_service, i) => !isHeld[i]);
      await until(async () =>
        String(await failureOf(refused!.tryAcquire('warm'))).includes('is no lock table'),
      );
    },
    30_000,
  );
});
