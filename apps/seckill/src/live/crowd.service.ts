import { ConflictException, Injectable, Logger, type OnModuleDestroy } from '@nestjs/common';
import { GoodsRepository } from '../shop/goods.repository.js';
import { sendCrowd } from './buyers.js';
import { InstanceService } from './instance.service.js';

export interface CrowdOptions {
  readonly buyers: number;
  /** Whether they buy under the lock. */
  readonly locked: boolean;
  readonly payMs: number;
}

/** How far the crowd is, or how far the last one came. */
export interface CrowdState extends CrowdOptions {
  readonly isRunning: boolean;
  readonly answered: number;
  readonly sold: number;
}

/** The buyers of the page. This instance sends their requests, as a browser sends only a few at a time. */
@Injectable()
export class CrowdService implements OnModuleDestroy {
  state: CrowdState | null = null;
  private readonly logger = new Logger(CrowdService.name);
  private running = { home: new AbortController(), end: Promise.resolve() };

  constructor(
    private readonly goods: GoodsRepository,
    private readonly instances: InstanceService,
  ) {}

  /** Returns when the buyers have started. @throws ConflictException while an earlier crowd is buying */
  start(options: CrowdOptions): CrowdState {
    if (this.state?.isRunning)
      throw new ConflictException('A crowd is under way; wait for it, or reset the sale.');
    const home = new AbortController();
    this.state = { ...options, isRunning: true, answered: 0, sold: 0 };
    this.running = { home, end: this.run(options, home.signal) };
    return this.state;
  }

  /** Sends the buyers home; resolves when the last has gone. */
  async stop(): Promise<void> {
    this.running.home.abort();
    await this.running.end;
  }

  onModuleDestroy(): Promise<void> {
    return this.stop();
  }

  private async run(options: CrowdOptions, signal: AbortSignal): Promise<void> {
    const update = (change: Partial<CrowdState>) => {
      if (this.state) this.state = { ...this.state, ...change };
    };
    const { buyers, locked, payMs } = options;
    try {
      const ids = (await this.goods.all()).map(({ id }) => id);
      const urls = (await this.instances.known()).filter(({ isAlive }) => isAlive).map(({ url }) => url);
      const route = locked ? 'purchase' : 'purchase-without-lock';
      await sendCrowd({
        buyers,
        payMs,
        urls,
        signal,
        name: `crowd-${Date.now().toString(36)}`,
        // The first buyers of all instances want the first item, the next ones the second: each instance sells each item.
        pathOf: (buyer) => `/goods/${ids[Math.floor(buyer / urls.length) % ids.length]!}/${route}`,
        onProgress: ({ sold, refused, failed }) => update({ sold, answered: sold + refused + failed }),
      });
    } catch (error) {
      this.logger.warn(`The crowd went home: ${String(error)}`);
    }
    update({ isRunning: false });
  }
}
