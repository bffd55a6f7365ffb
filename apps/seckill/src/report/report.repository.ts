import { Injectable } from '@nestjs/common';
import { Database } from '../database/database.js';
import type { Report } from './report.js';

const COLUMNS = 'id, made_at AS "madeAt", instance, orders, oversold';

const MAKE = `
  INSERT INTO reports (instance, orders, oversold)
  SELECT $1, coalesce(sum(sold), 0), coalesce(sum(greatest(sold - offered, 0)), 0)
  FROM (SELECT offered, (SELECT count(*) FROM orders WHERE goods_id = goods.id) AS sold FROM goods) AS item
  RETURNING ${COLUMNS}`;

@Injectable()
export class ReportRepository {
  constructor(private readonly database: Database) {}

  async make(instance: number): Promise<Report> {
    const [report] = await this.database.query<Report>(MAKE, [instance]);
    return report!;
  }

  latest(): Promise<readonly Report[]> {
    return this.database.query<Report>(`SELECT ${COLUMNS} FROM reports ORDER BY id DESC LIMIT 30`);
  }
}
