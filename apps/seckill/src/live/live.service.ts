import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
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
import { CONFIG, type Config } from '../config.js';
import { CrowdService } from '../crowd/crowd.service.js';
import { InstanceService } from '../instances/instance.service.js';
import { InstancesRepository } from '../instances/instances.repository.js';
import { describeProducts } from '../stores/describe-places.js';
import { LiveLocks } from './live-locks.js';
import type { LiveView } from './live-view.js';
import { LiveRepository } from './live.repository.js';

const EVERY_MS = 200;
/** More than `EVERY_MS`: an order may be seen later than one with a later time. */
const RECENT_MS = 1500;
/** For a page that has seen nothing yet. */
const HISTORY_MS = 20_000;

/** Reads the sale for all open pages, and only while one is open. */
@Injectable()
export class LiveService implements OnModuleDestroy {
  private readonly closing = new Subject<void>();
  private readonly recent$ = timer(EVERY_MS, EVERY_MS).pipe(
    exhaustMap(() => this.tryRead(RECENT_MS)),
    share(),
  );
  /** Ends when the app closes, which would wait for its open connections. */
  readonly view$: Observable<LiveView> = concat(
    defer(() => this.tryRead(HISTORY_MS)),
    this.recent$,
  ).pipe(takeUntil(this.closing));

  constructor(
    private readonly sale: LiveRepository,
    private readonly locks: LiveLocks,
    private readonly instances: InstancesRepository,
    private readonly self: InstanceService,
    private readonly crowd: CrowdService,
    @Inject(CONFIG) private readonly config: Config,
  ) {}

  onModuleDestroy(): void {
    this.closing.next();
  }

  /** A database that cannot be reached has nothing to show. The next read may succeed. */
  private tryRead(sinceMs: number): Observable<LiveView> {
    return defer(() => this.readView(sinceMs)).pipe(catchError(() => EMPTY));
  }

  private async readView(sinceMs: number): Promise<LiveView> {
    // The order matters: a sale that the crowd reports as over is in the stocks, and a reset of the stocks is not in the sections.
    const crowd = this.crowd.state;
    const [known, { at, goods }] = await Promise.all([this.instances.known(), this.sale.goods()]);
    const sections = await this.sale.sections(sinceMs);
    const locks = await Promise.all(goods.map(({ id }) => this.locks.of(id, known)));
    const holders = new Set(locks.map((lock) => lock?.holder));
    const instances = known.filter(({ id, isAlive }) => isAlive || holders.has(id));
    return {
      at,
      instance: this.self.id,
      instances: instances.map(({ id, url, isAlive }) => ({ id, url, isAlive })),
      goods: goods.map((item, index) => ({ ...item, lock: locks[index]! })),
      sections,
      crowd,
      locked: this.config.locked,
      places: describeProducts(this.config),
    };
  }
}
