import type { Dice } from '../kernel/dice.js';
import type { SimProcess } from '../kernel/process.js';
import type { RedisHost } from '../backends/redis/redis-host.js';

/** What a library tells the code that it has let in. */
export interface Grant {
  /** For how long it may still believe that it is alone, if nothing else is said: `Infinity` without a limit, 0 when the lock is lost. */
  validForMs(): number;
  /** Asks for another lease from now on, where the code has to do that itself. */
  extend?(): Promise<unknown>;
}

/** Waits for a lock as long as the library does, and runs `work` under it. Rejects when the lock was not to be had. */
export type RunLocked = (key: string, work: (grant: Grant) => Promise<void>) => Promise<unknown>;

/** Where one process runs its library. */
export interface Seat {
  readonly process: SimProcess;
  readonly hosts: readonly RedisHost[];
  readonly dice: Dice;
  readonly leaseMs: number;
  /** A command of its clients fails after so long; `undefined` as in ioredis itself: never. */
  readonly commandTimeoutMs: number | undefined;
}

/** A library in the place of ours. */
export interface Contestant {
  readonly name: string;
  /** One server, or three that do not know of each other. */
  readonly servers: 1 | 3;
  /** It looks at its lock in timers and replies, so that its holder may be a moment and a round trip late. Ours says it at any moment. */
  readonly looksInTimers: boolean;
  /** After a pause its holder may be this part of a lease later, as its documentation says; default 0. */
  readonly noticesWithin?: number;
  /** It promises to survive that one of three servers loses its data. */
  readonly survivesLoss?: boolean;
  /** Loads the library, when the globals of the simulation are in place. @returns what a process calls in its first callback */
  load(): Promise<(seat: Seat) => RunLocked>;
}
