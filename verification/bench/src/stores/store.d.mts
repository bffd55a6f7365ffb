import type { Entrant } from '../../contestants/index.mjs';

/** One choice of `--store`. */
export interface BenchedStore {
  readonly id: string;
  /** As shown. */
  readonly name: string;
  /** The part of its page that is the same in each run. */
  readonly how: string;
  readonly scenarios: readonly any[];
  /**
   * The scenarios that a run of all stores has of this one, and how many turns there are there for ours and the floor, for others, and for
   * those in a JVM, which take longest to warm up: none by default.
   */
  readonly brief: Readonly<Record<string, readonly [ours: number, others: number, jvm?: number]>>;
  /** Starts its server. Loads what it needs for that, as a run has one store. */
  open(): Promise<Omit<Context, 'ms' | 'warmUpMs'>>;
}

/** Shared by all scenarios of a run. */
export interface Context {
  /** How long each measured turn takes. */
  readonly ms: number;
  /** The longest warm-up before it. */
  readonly warmUpMs: number;
  /** Of the server, or of the file, for contestants. */
  readonly url: string;
  /** The same server over a slower network. */
  readonly slowUrl?: string;
  readonly observer: Observer;
  /** The share of each command that a contestant sends itself; see `sentBetween`. */
  sharesOf(entrant: Entrant): Promise<Map<string, number>>;
  close(): Promise<void>;
}

/** The benchmark's own connection to the server. */
export interface Observer {
  /** Removes everything that the last contestant left. */
  clear(): Promise<void>;
  read(): Promise<Reading>;
  /** As `read`, once no more commands arrive. */
  readWhenQuiet(): Promise<Reading>;
  version(): Promise<string>;
  /** How often our store tried to write a row since `clear`, and how often it did. Absent where rows are not counted. */
  writes?(): Promise<{ readonly attempts: number; readonly written: number }>;
}

/** Totals since the server started, or since `clear`. */
export interface Reading {
  /** NaN where it cannot be told. */
  readonly cpuUs: number;
  /** How often each command was called. */
  readonly calls: Map<string, number>;
}
