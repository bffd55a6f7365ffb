import type { LockStoreFactory } from '../../../libs/distributed-lock/src/port/lock-store.js';
import type { Dice } from '../kernel/dice.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Loss } from '../history/loss.js';
import type { SimProcess } from '../kernel/process.js';
import type { SimServer } from '../kernel/server.js';
import type { Latency, Network } from '../network/network.js';
import type { Check } from '../plan/checks.js';
import type { DrawScene, SceneMessages } from '../plan/scene.js';

/** Where a back end is built. */
export interface World {
  readonly kernel: Kernel;
  readonly network: Network;
  readonly dice: Dice;
  /** Notes what a server does now that guarantees excuse. */
  disturb(kind: string): void;
}

/** Options of a store as a plan keeps them: JSON. */
export type StoreOptions = Readonly<Record<string, unknown>> & {
  /** Bounds how late a call may settle. */
  readonly commandTimeoutMs: number;
};

/** One kind of store that can be simulated. One file each, named in `backends.ts`. */
export interface Backend {
  readonly name: string;
  /** The kinds of messages, requests and replies alike, at which faults are aimed. */
  readonly kinds: readonly string[];
  /** Further kinds, at which scenes alone aim. Default: none. */
  readonly sceneKinds?: readonly string[];
  readonly messages: SceneMessages;
  /** Those of requests that change a lock, at which faults are aimed more often. Default: none. */
  readonly writes?: readonly string[];
  /** How often a call may need a round trip, or wait for `commandTimeoutMs`, before it settles without an answer. */
  readonly commandsPerCall: number;
  /** The same while nothing is wrong; default 1. */
  readonly commandsInCalm?: number;
  /** A waiter has its grant so soon after the release, while nothing is disturbed. Default: nothing is said. */
  handOffMs?(latency: Latency, options: StoreOptions): number;
  /** So much longer than over the network alone a round trip may take, as servers ask each other; default 0. */
  readonly betweenServersMs?: (options: StoreOptions) => number;
  /** So much later than a reply a server may bring what another client has written; default 0. */
  readonly messageLagMs?: (options: StoreOptions) => number;
  /** Names of faults that a plan may aim at the servers of this back end, beside crashes and pauses; default: none. */
  readonly serverEvents?: readonly string[];
  /** How many servers `open` makes with these options. */
  serverCount(options: StoreOptions): number;
  /** Checks the options of this back end alone in a plan that somebody has written. Default: they are not checked. */
  readonly optionChecks?: Readonly<Record<string, Check>>;
  /** Locks live by the sessions of their clients, so that faults are aimed at these. */
  readonly hasSessions?: boolean;
  /** Some processes may be far from the servers, so that they lose races against the others. */
  readonly hasFarProcesses?: boolean;
  /** The order of owners follows the clocks of their processes, so that nothing is said of it. */
  readonly givesNoTickets?: boolean;
  /** Processes are served in the order in which they asked, whatever they ask for. */
  readonly servesInTurn?: boolean;
  /** Holders learn soon after a connection has broken what its messages would have told them. */
  readonly tellsGaps?: boolean;
  /** Stories of few calls and faults that go together, for what random ones hardly ever meet. Default: none. */
  readonly scenes?: (options: StoreOptions) => readonly DrawScene[];
  /** What the store cannot do, so that no program asks for it. */
  readonly cannot?: readonly ('permits' | 'fair')[];
  drawOptions(dice: Dice, watchdogTimeoutMs: number): StoreOptions;
  /** Makes the servers, and registers them with the network. */
  open(world: World, options: StoreOptions): RunningBackend;
}

/** A session that ended although its client did not end it. */
export interface ExpiredSession {
  readonly client: string;
  /** True time. */
  readonly at: number;
}

/** One thread of a client of another library. It has one lock at a time. */
export interface ForeignLock {
  readonly isHolding: boolean;
  /** Waits for the lock, and has it for so long at most. */
  lock(key: string, leaseMs: number): void;
  unlock(): void;
  /** Its process ends. */
  crash(): void;
}

/** The servers of one history. */
export interface RunningBackend {
  /** Faults stop them, crash them and set their clocks. What a crash costs follows from `onCrash` of the server. */
  readonly servers: readonly SimServer[];
  /** What servers have lost so far. Without it the checker excuses more. */
  readonly losses?: readonly Loss[];
  /** When a client was told so far that too few replicas had its grant in time, so that it gave it back: true times in ms. */
  readonly tooFewReplicas?: readonly number[];
  /** Sessions of clients that have ended because nothing was heard of the client in time. */
  readonly expired?: readonly ExpiredSession[];
  /** A server that has lost its data grants nothing for so long; default 0. */
  readonly closedAfterCrashMs?: number;
  /** Clients that knew more than servers which have forgotten it are not let in for so long; default `closedAfterCrashMs`. */
  readonly closedAfterForgettingMs?: number;
  /** A store for one service. It must take time and chance from its context, and send by `network` from `process`. */
  storeFor(process: SimProcess): LockStoreFactory;
  /** Who holds a key by what the servers have now, and for how many true ms they keep it without another request. */
  holdersOf?(key: string): ReadonlyMap<string, number>;
  /** Keys of which the servers keep anything, where sweepers delete what nobody has. */
  storedKeys?(): readonly string[];
  /** A client of another library, with the same wire format. */
  foreignClient?(): ForeignLock;
  /** The servers lose what they know, or go back to what they knew some time ago. Exclusion is not promised over that. */
  forget?(how: 'empty' | 'stale'): void;
  /** The faults of the plan are over, and those of the servers must be, too. */
  calm?(): void;
  /** What the servers keep when every call has settled and every service is closed, in words. Empty: all is at rest. */
  leftovers(): readonly string[];
}
