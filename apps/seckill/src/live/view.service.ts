import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import {
  catchError,
  concat,
  defer,
  EMPTY,
  exhaustMap,
  type Observable,
  share,
  Subject,
  takeUntil,
  timer,
} from 'rxjs';
import { Database, type Row } from '../database.js';
import { CrowdService } from './crowd.service.js';
import { InstanceService, type KnownInstance } from './instance.service.js';
import type { Section, StockedGoods, View, ViewLock } from './view.js';

const EVERY_MS = 200;
/** More than `EVERY_MS`, because an order may become visible after one with a later time. */
const RECENT_MS = 1500;
/** For a page that has seen nothing yet. */
const HISTORY_MS = 20_000;

const GOODS = `
  SELECT id, name, stock, offered,
    (SELECT count(*)::integer FROM orders WHERE goods_id = goods.id) AS orders
  FROM goods ORDER BY id`;

/** The orders of the last `$1` ms. The condition has now() because an index cannot be used with clock_timestamp(). */
const SECTIONS = `
  SELECT id, goods_id AS "goodsId", instance, fence,
    extract(epoch FROM read_at)::float8 * 1000 AS "from", extract(epoch FROM placed_at)::float8 * 1000 AS "to"
  FROM orders WHERE placed_at > now() - $1 * interval '1 ms' ORDER BY placed_at`;

const NOW = 'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS at';

/** Reads the sale for all open pages, and only while one is open. */
@Injectable()
export class ViewService implements OnModuleDestroy {
  private readonly closing = new Subject<void>();
  private readonly recent$ = timer(EVERY_MS, EVERY_MS).pipe(
    exhaustMap(() => this.tryRead(RECENT_MS)),
    share(),
  );
  /** Ends when the app closes, which would wait for its open connections. */
  readonly view$: Observable<View> = concat(
    defer(() => this.tryRead(HISTORY_MS)),
    this.recent$,
  ).pipe(takeUntil(this.closing));

  constructor(
    private readonly database: Database,
    private readonly locks: LockService,
    private readonly instances: InstanceService,
    private readonly crowd: CrowdService,
  ) {}

  onModuleDestroy(): void {
    this.closing.next();
  }

  /** While the database does not answer there is nothing to show. The next read may succeed. */
  private tryRead(sinceMs: number): Observable<View> {
    return defer(() => this.readView(sinceMs)).pipe(catchError(() => EMPTY));
  }

  private async readView(sinceMs: number): Promise<View> {
    // The crowd comes first: what it has bought by now is in the stocks that are read later. The sections come last: they
    // have no order that a reset has deleted from the stocks.
    const crowd = this.crowd.state;
    const known = await this.instances.known();
    const goods = await this.database.query<Row & StockedGoods>(GOODS);
    const sections = await this.database.query<Row & Section>(SECTIONS, [sinceMs]);
    const [now] = await this.database.query<{ at: number }>(NOW);
    const locks = await Promise.all(goods.map(({ id }) => this.readLock(id, known)));
    const holders = new Set(locks.map((lock) => lock?.holder));
    return {
      at: now!.at,
      instance: this.instances.id,
      instances: known
        .filter(({ id, isAlive }) => isAlive || holders.has(id))
        .map(({ id, url, isAlive }) => ({ id, url, isAlive })),
      goods: goods.map((item, index) => ({ ...item, lock: locks[index]! })),
      sections,
      crowd,
    };
  }

  /** Asks the store who holds and who waits. It knows owners: the name of a process and a number. */
  private async readLock(goodsId: number, known: readonly KnownInstance[]): Promise<ViewLock | null> {
    const instanceOf = (owner: string) =>
      known.find(({ lockClient }) => lockClient !== null && owner.startsWith(`${lockClient}:`))?.id ?? null;
    try {
      const inspection = await this.locks.inspect(lockKey`goods:${goodsId}`);
      const [holder] = inspection?.holders ?? [];
      return {
        isHeld: holder !== undefined,
        holder: holder === undefined ? null : instanceOf(holder),
        leaseLeftMs: inspection?.remainingMs ?? 0,
        fencingToken: inspection?.fencingToken ?? null,
        queue: (inspection?.pending ?? []).map(instanceOf),
      };
    } catch {
      return null;
    }
  }
}
