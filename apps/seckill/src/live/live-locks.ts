import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import type { KnownInstance } from '../instances/instance.js';
import type { LiveLock } from './live-view.js';

/** The holders and waiters of each lock, from the store that all instances share, with the names of the instances. */
@Injectable()
export class LiveLocks {
  constructor(private readonly locks: LockService) {}

  async of(goodsId: number, instances: readonly KnownInstance[]): Promise<LiveLock | null> {
    const key = lockKey`goods:${goodsId}`;
    const instanceOf = (owner: string) =>
      instances.find(({ client }) => client !== null && owner.startsWith(`${client}:`))?.id ?? null;
    const alive = instances.filter(({ isAlive }) => isAlive);
    const counts = alive.map(({ id, waiting }) => [id, waiting[key] ?? 0] as const);
    const waiting = Object.fromEntries(counts.filter(([, count]) => count > 0));
    try {
      const snapshot = await this.locks.inspect(key);
      const holder = snapshot?.holders[0];
      return {
        holder: holder === undefined ? null : instanceOf(holder),
        isHeld: holder !== undefined,
        leaseLeftMs: snapshot?.remainingMs ?? 0,
        fencingToken: snapshot?.fencingToken ?? null,
        line: (snapshot?.pending ?? []).map(instanceOf),
        waiting,
      };
    } catch {
      return null;
    }
  }
}
