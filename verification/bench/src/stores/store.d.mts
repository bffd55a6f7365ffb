import type { Entrant } from '../../contestants/index.mjs';

/** One choice of `--store`. */
export interface BenchedStore {
  readonly id: string;
  /** As shown. */
  readonly name: string;
  /** The part of its page that is the same in each run. */
  readonly how: string;
  readonly scenarios: readonly any[];
  /** Starts its server. Loads what it needs for that, as a run has one store. */
  open(): Promise<Omit<Context, 'ms'>>;
}

/** Shared by all scenarios of a run. */
export interface Context {
  /** How long each measured run takes. */
  readonly ms: number;
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
