import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-distributed-lock';

/** Shared by all instances, as the store of your CacheModule is. */
export abstract class Cache {
  abstract get(key: string): Promise<string | undefined>;
  abstract set(key: string, value: string, ttlMs: number): Promise<void>;
}

export abstract class Source {
  abstract compute(id: string): Promise<string>;
}

@Injectable()
export class Reports {
  constructor(
    private readonly cache: Cache,
    private readonly source: Source,
  ) {}

  /** A hit takes no lock. */
  async report(id: string): Promise<string> {
    return (await this.cache.get(`report:${id}`)) ?? this.computeOnce(id);
  }

  @Locked('report:<id>')
  async computeOnce(id: string): Promise<string> {
    const found = await this.cache.get(`report:${id}`); // by the caller that had the lock before
    if (found !== undefined) return found;
    const report = await this.source.compute(id);
    await this.cache.set(`report:${id}`, report, 60_000);
    return report;
  }
}
