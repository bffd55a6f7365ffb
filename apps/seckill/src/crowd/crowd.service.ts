import { ConflictException, Injectable, Logger, type OnModuleDestroy } from '@nestjs/common';
import { GoodsRepository } from '../goods/goods.repository.js';
import { InstancesRepository } from '../instances/instances.repository.js';
import type { CrowdOptions } from './crowd.input.js';
import { runSale } from './sale.js';
import type { Wish } from './wish.js';

/** How far the crowd is, or how far the last one came. */
export interface CrowdState extends CrowdOptions {
  readonly running: boolean;
  readonly answered: number;
  readonly sold: number;
}

/**
 * Buyers for the page: real requests to all instances, sent from this one, as a browser would not send more than a few
 * at a time.
 */
@Injectable()
export class CrowdService implements OnModuleDestroy {
  state: CrowdState | null = null;
  private readonly logger = new Logger(CrowdService.name);
  private sale = { home: new AbortController(), over: Promise.resolve() };

  constructor(
    private readonly goods: GoodsRepository,
    private readonly instances: InstancesRepository,
  ) {}

  /** Resolves when the buyers have started. @throws ConflictException while an earlier crowd is buying */
  async start(options: CrowdOptions): Promise<CrowdState> {
    if (this.state?.running)
      throw new ConflictException('A crowd is under way; wait for it, or reset the sale.');
    this.state = { ...options, running: true, answered: 0, sold: 0 };
    const home = new AbortController();
    this.sale = { home, over: this.run(options, home.signal) };
    return this.state;
  }

  /** Sends them home; resolves when the last has gone. */
  async stop(): Promise<void> {
    this.sale.home.abort();
    await this.sale.over;
  }

  onModuleDestroy(): Promise<void> {
    return this.stop();
  }

  private async run(options: CrowdOptions, signal: AbortSignal): Promise<void> {
    const update = (change: Partial<CrowdState>) => {
      if (this.state) this.state = { ...this.state, ...change };
    };
    try {
      const goods = (await this.goods.shown()).map(({ id }) => id);
      const urls = (await this.instances.alive()).map(({ url }) => url);
      const crowd = `crowd-${Date.now().toString(36)}`;
      const { buyers } = options;
      const onProgress = (answered: number, sold: number) => update({ answered, sold });
      // By turns of all instances: each of them sells each item.
      const wishOf = (buyer: number) => wish(Math.floor(buyer / urls.length), goods, options);
      await runSale({ wishOf, buyers, crowd, urls: () => urls, onProgress, signal });
    } catch (error) {
      this.logger.warn(`The crowd went home: ${String(error)}`);
    }
    update({ running: false });
  }
}

/**
 * Turns go round the items. No buyer has two in the cart: the buyer would hold the first while it waits in the
 * long queue for the second, and the first would not sell meanwhile.
 */
function wish(turn: number, goods: readonly number[], { locked, payMs }: CrowdOptions): Wish {
  const purchase = locked ? 'purchase' : 'purchase-without-lock';
  return { path: `/goods/${goods[turn % goods.length]!}/${purchase}`, body: { payMs } };
}
