import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnGuarded, type GuardedChild } from '#processes';
import { startRedisServer, type RedisServer } from '#redis-server';
import { RedisEyes } from '../support/redis-eyes.js';
import { until } from '#until';

const SCRIPT = fileURLToPath(new URL('worker.mjs', import.meta.url));
const KEY = 'sale';

interface Told {
  readonly what: string;
  readonly [detail: string]: unknown;
}

export interface SaleOptions {
  readonly nodes: number;
  readonly processes: number;
  readonly callers: number;
  readonly watchdogTimeoutMs?: number;
}

/** A sale by several processes whose locks are on several servers; the stock is on one more, unguarded but for tokens. */
export class Sale {
  readonly told: Told[] = [];
  private errors = '';
  private readonly sellers: GuardedChild[] = [];
  private readonly eyes: RedisEyes;

  private constructor(
    readonly nodes: readonly RedisServer[],
    private readonly shop: RedisServer,
  ) {
    this.eyes = new RedisEyes(shop.url);
  }

  static async open({ nodes, processes, ...options }: SaleOptions): Promise<Sale> {
    const [shop, ...rest] = await Promise.all(Array.from({ length: nodes + 1 }, () => startRedisServer()));
    const sale = new Sale(rest, shop as RedisServer);
    for (let i = 0; i < processes; i++) sale.start({ role: 'sell', ...options });
    await sale.hear('ready', processes);
    await sale.eyes.client.mset(`${KEY}:go`, '1', `${KEY}:stock`, '1e9');
    return sale;
  }

  async untilSold(count: number): Promise<void> {
    await until(async () => {
      if (this.errors) throw new Error(this.errors);
      return (await this.sold()) >= count;
    });
  }

  async sold(): Promise<number> {
    return Number(await this.eyes.client.get(`${KEY}:sold`));
  }

  /** What is done by then is all that is sold, and some more. */
  async sellOut(): Promise<void> {
    await this.eyes.client.set(`${KEY}:stock`, String((await this.sold()) + 50));
  }

  /** Resolves with what so many of them tell under that name. */
  async hear(what: string, count: number): Promise<Told[]> {
    await until(() => {
      if (this.errors) throw new Error(this.errors);
      return this.heard(what).length >= count;
    });
    return this.heard(what);
  }

  heard(what: string): Told[] {
    return this.told.filter((told) => told.what === what);
  }

  async close(): Promise<void> {
    for (const { child, exited } of this.sellers) {
      child.kill('SIGKILL');
      await exited;
    }
    this.eyes.close();
    await Promise.all([this.shop, ...this.nodes].map((server) => server.stop()));
  }

  private start(options: object): void {
    const urls = this.nodes.map(({ url }) => url);
    const seller = spawnGuarded(
      process.execPath,
      [SCRIPT, JSON.stringify({ ...options, urls, shop: this.shop.url, key: KEY })],
      { env: process.env, stdio: 'pipe' },
    );
    this.sellers.push(seller);
    const { stdout, stderr } = seller.child;
    if (stdout) createInterface(stdout).on('line', (line) => this.told.push(JSON.parse(line) as Told));
    stderr?.on('data', (text: Buffer) => (this.errors += text.toString()));
  }
}
