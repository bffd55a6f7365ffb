/** One library as the benchmark uses it: opened once per process, called by many callers at once. */
export interface Contestant {
  /**
   * Acquires `key`, runs `work`, releases, and settles when the library's own function for this does. Rejects when the
   * library gives up waiting.
   */
  run(key: string, work: () => unknown): Promise<unknown>;
  /** Acquires `key` for good, if the library renews such a lock by itself. Resolves with the library's lock object. */
  keep?(key: string): Promise<unknown>;
}

/** Connects; resolves when the first lock can be asked for. */
export type OpenContestant = (url: string, options: ContestantOptions) => Promise<Contestant>;

export interface ContestantOptions {
  /** Longest wait in ms, where a scenario needs more than the library's default and the library has an option for it. */
  readonly waitMs?: number;
}
