import { type Clock, systemClock } from '../common/clock.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeNumber, type OptionRule, type OptionRules } from '../port/option-checks.js';

/**
 * Where `OnceService` stores results: `memoryResults()`, `redisResults(client)`, `sqlResults(query)`, or an object of your own.
 *
 * The key that each method gets has the `keyPrefix` of the registration.
 */
export interface ResultStore {
  /** Called before the first use: creates a table, for instance. */
  prepare?(): Promise<void>;
  /** Returns the result of a key; `undefined` if there is none, or if its `keepForMs` is over. */
  read(key: string): Promise<StoredResult | undefined>;
  /**
   * Stores a result, unless the key has one with a larger token. Comparing and storing is one atomic step, so a caller that has
   * lost its lock cannot overwrite the result of its successor.
   *
   * @param keepForMs how long to keep it, in ms
   * @returns whether it was stored
   */
  write(key: string, result: StoredResult, keepForMs: number): Promise<boolean>;
  /** Removes the result of a key. */
  remove(key: string): Promise<void>;
}

/** A result as it is stored. */
export interface StoredResult {
  /** The fencing token of the lock under which the work ran. */
  readonly token: number;
  /** The result as text. Only `OnceService` writes and reads it. No two attempts have the same. */
  readonly text: string;
}

/** Options of `memoryResults`. */
export interface MemoryResultsOptions {
  /** How many results to keep; default 10 000. When there are more, the one that was stored first is dropped. */
  readonly maxResults?: number;
  /** For tests; default: the clock of the process. */
  readonly clock?: Clock;
}

const COUNT: OptionRule = [
  (value) => Number.isInteger(value) && Number(value) >= 1,
  '1 or more',
  describeNumber,
];
const RULES: OptionRules<MemoryResultsOptions> = { maxResults: COUNT, clock: true };

/**
 * Stores results in this process: for development, for tests, and for a service with one instance.
 *
 * @throws LockConfigurationError for wrong options
 */
export function memoryResults(options: MemoryResultsOptions = {}): ResultStore {
  checkOptions('memoryResults', options, RULES);
  const { maxResults = 10_000, clock = systemClock } = options;
  const stored = new Map<string, StoredResult & { readonly until: number }>();
  const fresh = (key: string) => {
    const result = stored.get(key);
    return result && result.until > clock.now() ? result : undefined;
  };
  return {
    async read(key) {
      const result = fresh(key);
      return result && { token: result.token, text: result.text };
    },
    async write(key, { token, text }, keepForMs) {
      if ((fresh(key)?.token ?? 0) > token) return false;
      // Delete before setting, so that the key moves to the end of the map. Its first key is then the one stored first.
      stored.delete(key);
      stored.set(key, { token, text, until: clock.now() + keepForMs });
      if (stored.size > maxResults) stored.delete(stored.keys().next().value as string);
      return true;
    },
    async remove(key) {
      stored.delete(key);
    },
  };
}

/** @throws LockConfigurationError for an object that is no `ResultStore`, such as a promise without `await` */
export function checkResults(results: unknown): asserts results is ResultStore {
  const { read, write, remove } = Object(results) as Partial<ResultStore>;
  if ([read, write, remove].every((method) => typeof method === 'function')) return;
  throw new LockConfigurationError(
    'OnceModule.forRoot needs results, where the results are stored: memoryResults(), redisResults(client) or sqlResults(query).',
  );
}
