import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.js';
import type { Instance, KnownInstance } from './instance.js';

/** An instance that was silent for so long is gone. */
const SILENCE = `interval '3 seconds'`;
/** But its locks may outlive it, and the page names their holder: leases are shorter than this. */
const REMEMBERED = `interval '1 hour'`;

@Injectable()
export class InstancesRepository {
  constructor(private readonly database: Database) {}

  /** @returns the id of the new one */
  async add(): Promise<number> {
    await this.database.query(`DELETE FROM instances WHERE seen_at < now() - ${REMEMBERED}`);
    const sql = 'INSERT INTO instances DEFAULT VALUES RETURNING id';
    const [row] = await this.database.query<{ id: number }>(sql);
    return row!.id;
  }

  async save({ id, url, client, waiting }: Instance): Promise<void> {
    const sql = `
      INSERT INTO instances (id, url, client, waiting) VALUES ($1, $2, $3, $4)
      ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), url = $2, client = $3, waiting = $4`;
    await this.database.query(sql, [id, url, client, JSON.stringify(waiting)]);
  }

  async remove(id: number): Promise<void> {
    await this.database.query('DELETE FROM instances WHERE id = $1', [id]);
  }

  /** The running instances, in the order of their numbers. */
  async alive(): Promise<readonly Instance[]> {
    return (await this.known()).filter(({ isAlive }) => isAlive);
  }

  /** The running and the killed instances, in the order of their numbers. */
  known(): Promise<readonly KnownInstance[]> {
    return this.database.query<KnownInstance>(`
      SELECT id, url, client, waiting, seen_at > now() - ${SILENCE} AS "isAlive" FROM instances
      WHERE url IS NOT NULL ORDER BY id`);
  }
}
