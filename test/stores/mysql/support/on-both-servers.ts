import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { LockService, LockServiceOptions } from 'nestjs-distributed-lock';
import { mysqlStore, type MysqlStoreOptions } from 'nestjs-distributed-lock/mysql';
import mysql, { type Connection, type RowDataPacket } from 'mysql2/promise';
import { startMariadbServer, type MariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { closeServices, openServiceOn } from '../../../support/lock-services.js';
import { describeWith } from '../../support/describe-with.js';

const STARTS = { mariadb: startMariadbServer, mysql: startMysqlServer } as const;
export type ServerName = keyof typeof STARTS;

/** One server for all tests of a block, with a connection of the tests' own. */
export class Stage {
  server!: MariadbServer;
  admin!: Connection;
  private count = 0;

  constructor(readonly name: ServerName) {}

  get key(): string {
    return `key-${this.count}`;
  }

  nextKey(): void {
    this.count += 1;
  }

  /** A service as another process would have it. */
  service(
    {
      url = this.server.url,
      ...options
    }: Partial<LockServiceOptions> & { readonly url?: string } & MysqlStoreOptions = {},
    store: MysqlStoreOptions = {},
  ): LockService {
    return openServiceOn(mysqlStore(url, store), options);
  }

  async rows(sql: string): Promise<RowDataPacket[]> {
    return (await this.admin.query<RowDataPacket[]>(sql))[0];
  }

  async connect(): Promise<void> {
    this.admin = await mysql.createConnection(this.server.url);
    this.admin.on('error', () => undefined);
  }
}

/** Runs the tests on MariaDB and on MySQL. */
export function describeOnBothServers(title: string, define: (stage: Stage) => void): void {
  for (const name of Object.keys(STARTS) as ServerName[]) {
    describeWith(name)(`${title} (${name})`, () => {
      const stage = new Stage(name);
      beforeAll(async () => {
        stage.server = await STARTS[name]();
        await stage.connect();
      }, 60_000);
      afterEach(async () => {
        stage.nextKey();
        await closeServices();
      });
      afterAll(async () => {
        stage.admin?.destroy();
        await stage.server?.stop();
      });
      define(stage);
    });
  }
}
