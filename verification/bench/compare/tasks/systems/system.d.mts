/** What a team may choose, opened as its documentation shows. */
export interface System {
  readonly server: 'redis' | 'postgres';
  /** After how long without a sign of life it takes a holder for dead. */
  readonly leaseMs: number;
  /** Whether it keeps works of one key apart, and lets those of others run. */
  readonly hasKeys: boolean;
  /** Whether it can let more than one work of a key run, up to a limit. */
  readonly hasLimits: boolean;
  /** As a process does. `onUnknown` is called for work that a process which has died began. */
  open(url: string, onUnknown?: () => void): Promise<OpenSystem>;
}

export interface OpenSystem {
  /** Runs `work` when it is the turn of its key, with what it may know about this turn. Resolves with its result. */
  run<T>(key: string, work: (turn: { token?: unknown }) => Promise<T>, options?: RunOptions): Promise<T>;
  /** Runs `work` unless work of this key was run before, and resolves with the result of the first one. */
  runOnce?<T>(key: string, work: () => Promise<T>): Promise<T>;
  /** Makes whoever holds a key lose it, as a failure of the server or an operator may. */
  takeAway(): Promise<unknown>;
}

export interface RunOptions {
  /** How many works of the key may run at a time; by default 1. */
  readonly limit?: number;
  readonly onLost?: () => void;
}
