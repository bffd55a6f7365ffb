/** One library as the benchmark uses it: opened once per process, called by many callers at once. */
export interface Contestant {
  /**
   * Acquires `key`, runs `work`, releases, and settles when the library's own way of doing that does. Rejects when the
   * library gives up waiting.
   */
  run(key: string, work: () => unknown): Promise<unknown>;
  /** Acquires `key` for good, where the library renews such a lock by itself; resolves with what holds it. */
  keep?(key: string): Promise<unknown>;
}

/** Connects; resolves when the first lock can be asked for. */
export type OpenContestant = (url: string, options: ContestantOptions) => Promise<Contestant>;

export interface ContestantOptions {
  /** Longest wait in ms, where a scenario needs more than the library's default and the library can be told. */
  readonly waitMs?: number;
}
