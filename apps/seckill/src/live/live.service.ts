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
import { LiveLocks } from './live-locks.js';
import type { LiveView } from './live-view.js';
import { LiveRepository } from './live.repository.js';

const EVERY_MS = 200;
/** More than `EVERY_MS`: an order may be seen later than one with a later time. */
const RECENT_MS = 1500;
/** For a page that has seen nothing yet. */
const HISTORY_MS = 20_000;

/** Looks at the sale for all pages that are open, and not at all when none is. */
@Injectable()
export class LiveService implements OnModuleDestroy {
  private readonly closing = new Subject<void>();
  private readonly recent$ = timer(EVERY_MS, EVERY_MS).pipe(
    exhaustMap(() => this.tryLook(RECENT_MS)),
    share(),
  );
  /** Ends when the app closes, which would wait for its open connections. */
  readonly view$: Observable<LiveView> = concat(
    defer(() => this.tryLook(HISTORY_MS)),
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

  /** A database that is away has nothing to show; the next look may. */
  private tryLook(sinceMs: number): Observable<LiveView> {
    return defer(() => this.look(sinceMs)).pipe(catchError(() => EMPTY));
  }

  private async look(sinceMs: number): Promise<LiveView> {
    // In this order: what is over for the crowd is in the stocks, and what was reset there is not in the sections.
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
    };
  }
}
