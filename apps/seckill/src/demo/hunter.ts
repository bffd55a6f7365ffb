import { LockService, lockKey } from 'nestjs-distributed-lock';
import { InstancesRepository } from '../instances/instances.repository.js';
import { lockStoreOf } from '../stores/lock-store.js';
import { STORES } from '../stores/stores.js';
import type { Branches } from './branches.js';
import type { Instance } from './instance.js';
import { killHolder } from './kill-holder.js';
import type { Kill } from './kill.js';
import { WATCHDOG_MS } from './watchdog.js';

/** After this the queue is stuck, and the demo has failed. */
const PATIENCE_MS = 4 * WATCHDOG_MS;
/** It connects while all buyers send their requests, which takes its time on a busy machine. */
const COMMAND_MS = 4000;

/** Kills the process that holds the lock of an item. A demo that kills nobody does not load this, nor the library. */
export class Hunter {
  private readonly locks: LockService;
  private readonly known: InstancesRepository;
  private readonly hasSessions: boolean;

  constructor({ config, database }: Branches) {
    this.locks = new LockService({ store: lockStoreOf(config, { commandTimeoutMs: COMMAND_MS }) });
    this.known = new InstancesRepository(database);
    this.hasSessions = STORES[config.store].hasSessions === true;
  }

  killHolder(goodsId: number, running: readonly Instance[], signal: AbortSignal): Promise<Kill | undefined> {
    const { locks, known, hasSessions } = this;
    const key = lockKey`goods:${goodsId}`;
    return killHolder({ key, locks, known, running, hasSessions, patienceMs: PATIENCE_MS }, signal);
  }

  close(): Promise<void> {
    return this.locks.close();
  }
}
