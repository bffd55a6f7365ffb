import { createHash } from 'node:crypto';
import { HttpException } from '@nestjs/common';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { Lock } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { streamKindOf } from '../lock/streams/held-stream.js';
import { CALL_RULES } from '../lock/request/lock-options.js';
import { checkKey } from '../lock/request/lock-request.js';
import { LockConfigurationError, LockWaitTimeoutError } from '../port/lock.errors.js';
import {
  checkOptions,
  describeGiven,
  describeMs,
  type OptionRule,
  type OptionRules,
} from '../port/option-checks.js';
import type { SqlQuery } from '../fencing/held-until-commit.js';
import { OnceError } from './once.error.js';
import { type ResultStore, type StoredResult } from './results.js';
import type { SqlResults } from './sql-results.js';

/** Options of `once.run`. All times in ms. */
export interface OnceOptions {
  /** How long the result is remembered, from 1 ms to 366 days. Required. */
  readonly keepForMs: number;
  /**
   * The payload of the call: anything that JSON can express. The service stores only its hash, and refuses a call with the same key and
   * another fingerprint with `ONCE_MISMATCH`. Default: none, so all calls of a key count as the same.
   */
  readonly fingerprint?: unknown;
  /** How long a call waits while another one works on its key; default: `waitMs` of the module. */
  readonly waitMs?: number;
  /** The lease of the lock under which the work runs, if nothing is to renew it; default: the watchdog renews it. */
  readonly leaseMs?: number;
  /**
   * Whether to remember an error of the work and throw it to later callers, as a plain `Error` with its name and message or as
   * the same `HttpException`. Default: no error is remembered, and the next call runs the work again.
   */
  readonly rememberFailure?: (error: unknown) => boolean;
  /** If it aborts while the call waits, the call stops waiting and rejects with `signal.reason`. */
  readonly signal?: AbortSignal;
}

/** The settings that all calls of a service share. */
export interface OnceSettings {
  /** Where results are stored. */
  readonly results: ResultStore;
  /** Turns results into text and back; default: JSON. Give your own to encrypt them, or for values that JSON lacks. */
  readonly serializer?: OnceSerializer;
  /** The longest text of a result that is stored, in characters; default 262 144. */
  readonly maxLength?: number;
}

/** Turns a result into text, and back. */
export interface OnceSerializer {
  stringify(value: unknown): string | undefined;
  parse(text: string): unknown;
}

/** The attempt whose work runs now. */
export interface OnceAttempt {
  /** The lock of the key. Its `signal` aborts when it is lost. */
  readonly lock: Lock;
  /**
   * Stores the result by the transaction that writes the data, as its last statement before the commit. Then the work is done exactly
   * one time: if the transaction commits, every later call gets this result, and otherwise none does. Only with `sqlResults`.
   *
   * @param query the query function of the transaction's own connection
   * @throws OnceError `ONCE_DONE` if the work was done before. Do not catch it, so that the transaction is rolled back; the call
   * then returns the stored result
   */
  readonly rememberIn: (query: SqlQuery, result: unknown) => Promise<void>;
}

/** The result of a call. */
export interface OnceOutcome<T> {
  readonly value: T;
  /** True if the result was stored before, so that the work did not run for this call. */
  readonly isReplay: boolean;
}

const YEAR_MS = 366 * 24 * 3600 * 1000;
const isKeepTime = (value: unknown) => typeof value === 'number' && value >= 1 && value <= YEAR_MS;
const FUNCTION: OptionRule = [(value) => typeof value === 'function', 'a function'];

export const ONCE_RULES: OptionRules<OnceOptions> = {
  keepForMs: [isKeepTime, 'from 1 ms to 366 days', describeMs],
  fingerprint: true,
  waitMs: CALL_RULES.acquire.waitMs,
  leaseMs: CALL_RULES.acquire.leaseMs,
  signal: CALL_RULES.acquire.signal,
  rememberFailure: FUNCTION,
};

/** The text that is stored for a key, as an object. */
interface Remembered {
  /** Names the attempt that made the result, so that a store can tell equal results of two attempts apart. */
  readonly attempt: string;
  readonly fingerprint?: string;
  /** `value` and `failure` have a `text` from the serializer. `lost`: the work succeeded, and its result could not be stored. */
  readonly kind: 'value' | 'failure' | 'lost';
  readonly text?: string;
  /** Why a result is `lost`. */
  readonly reason?: string;
}

interface RememberedFailure {
  readonly name: string;
  readonly message: string;
  readonly http?: { readonly status: number; readonly response: string | object };
}

/** One call, with its options checked. */
interface Call<T> {
  readonly key: string;
  readonly options: OnceOptions;
  readonly fingerprint: string | undefined;
  readonly work: (attempt: OnceAttempt) => T | Promise<T>;
}

/**
 * Runs work one time for each key, and remembers its result.
 *
 * The first call of a key works under a lock. Calls that come meanwhile wait for the store's notification, and get the same result. Later
 * ones get the stored result until `keepForMs` is over. If the work fails or its process dies, the next call works.
 *
 * Without `attempt.rememberIn` the result is stored after the work. So work runs again if its process dies between the two, or if its
 * lock is lost while it runs.
 */
export class OnceService {
  private readonly results: ResultStore;
  private readonly serializer: OnceSerializer;
  private readonly maxLength: number;
  private prepared: Promise<void> | undefined;
  /** Reads under way. Many callers that wait for one key get its result by one read. */
  private readonly reads = new Map<string, Promise<StoredResult | undefined>>();

  /** @param locks the service whose store has the locks, and whose `keyPrefix` also stands before the keys of results */
  constructor(
    private readonly locks: LockService,
    settings: OnceSettings,
  ) {
    this.results = settings.results;
    this.serializer = settings.serializer ?? JSON;
    this.maxLength = settings.maxLength ?? 262_144;
  }

  /**
   * Runs `work`, or returns the result that was stored for the key.
   *
   * @throws OnceError `ONCE_RUNNING` if another call still works on the key when `waitMs` is over; `ONCE_MISMATCH` for another
   * fingerprint; `ONCE_RESULT_LOST` if the work has succeeded, but its result could not be stored
   * @throws LockLostError if the lock was lost while the work ran: it may run again
   * @throws LockStoreError, LockKeyError, LockShutdownError, LockDeadlockError or LockConfigurationError as `withLock` does, and the error
   * of the result store
   * @example
   * ```ts
   * import type { OnceService } from 'nestjs-distributed-lock/once';
   *
   * export function welcome(once: OnceService, send: () => Promise<string>): Promise<string> {
   *   return once.run('welcome:42', { keepForMs: 86_400_000 }, send);
   * }
   * ```
   */
  async run<T>(
    key: string,
    options: OnceOptions,
    work: (attempt: OnceAttempt) => T | Promise<T>,
  ): Promise<T> {
    return (await this.outcomeOf(key, options, work)).value;
  }

  /** As `run`, and says whether the result was stored before. */
  async outcomeOf<T>(
    key: string,
    options: OnceOptions,
    work: (attempt: OnceAttempt) => T | Promise<T>,
  ): Promise<OnceOutcome<T>> {
    // Before a result is looked for: all calls without a key would get the result of the first one.
    checkKey(key);
    checkOptions('once.run', options, ONCE_RULES);
    if (options.keepForMs === undefined) throw new LockConfigurationError('once.run needs keepForMs.');
    if (typeof work !== 'function') {
      throw new LockConfigurationError(
        `once.run takes a function to run; it was given ${describeGiven(work)}.`,
      );
    }
    await this.prepare();
    const call: Call<T> = { key, options, fingerprint: fingerprintOf(options.fingerprint), work };
    const { clock, waitMs: moduleWaitMs } = this.locks.options;
    const deadline = clock.now() + (options.waitMs ?? moduleWaitMs);
    const restMs = () => Math.max(0, deadline - clock.now());
    // 1. Usually the result is stored already, or nobody works on the key.
    // 2. Otherwise wait in shared mode: when the worker releases, the store wakes such waiters of all processes at the same time.
    // 3. If there still is no result, the work has failed or its process has died. Wait for the lock, to run the work here.
    const outcome =
      (await this.find(call)) ??
      (await this.tryToWork(call, 0)) ??
      (await this.waitForResult(call, restMs())) ??
      (await this.tryToWork(call, restMs()));
    if (outcome) return outcome;
    throw new OnceError(
      'ONCE_RUNNING',
      key,
      `Another call works on "${key}", and waitMs is over. Try again later.`,
    );
  }

  /**
   * Removes the stored result of a key, so that the next call runs the work. For operators and tests.
   *
   * @throws LockKeyError for a key that is empty, no string or too long; the error of the result store
   */
  async forget(key: string): Promise<void> {
    checkKey(key);
    await this.prepare();
    await this.results.remove(this.nameOf(key));
  }

  /** Prepares the result store, one time. If that fails, the next call tries again. */
  private prepare(): Promise<void> {
    this.prepared ??= Promise.resolve(this.results.prepare?.()).catch((error: unknown) => {
      this.prepared = undefined;
      throw error;
    });
    return this.prepared;
  }

  /**
   * Waits up to `waitMs` for the lock. Then returns the result if there is one by now, or runs the work. `undefined` without the
   * lock.
   */
  private tryToWork<T>(call: Call<T>, waitMs: number): Promise<OnceOutcome<T> | undefined> {
    return this.under(call, { mode: 'exclusive', waitMs }, async (lock) => {
      // A read that began before this lock was acquired may have missed the result, so read again.
      const found = await this.find(call, this.readNow(call.key));
      if (found) return found;
      // The read may have taken longer than the lease.
      lock.assertHeld();
      return this.work(call, lock);
    });
  }

  private waitForResult<T>(call: Call<T>, waitMs: number): Promise<OnceOutcome<T> | undefined> {
    return this.under(call, { mode: 'shared', waitMs }, () => this.find(call));
  }

  /** Runs `task` under the lock of the key. `undefined` if the lock is not free within `waitMs`. */
  private async under<R>(
    { key, options: { leaseMs, signal } }: Call<unknown>,
    { mode, waitMs }: { readonly mode: 'exclusive' | 'shared'; readonly waitMs: number },
    task: (lock: Lock) => Promise<R>,
  ): Promise<R | undefined> {
    let hasLock = false;
    // Defaults of the module must not keep callers from the result: a minimum hold would delay them, and a limit would refuse them although
    // they wait for one result together.
    const free = { holdAtLeastMs: 0, maxWaiting: Infinity } as const;
    const fixed = { reentrant: false, site: 'once.run', onLost: 'ignore' } as const;
    const options = { mode, waitMs, leaseMs, signal, ...free, ...fixed };
    try {
      return await this.locks.withLock(`once:${key}`, options, (lock) => {
        hasLock = true;
        return task(lock);
      });
    } catch (error) {
      if (!hasLock && error instanceof LockWaitTimeoutError) return undefined;
      throw error;
    }
  }

  private async work<T>(call: Call<T>, lock: Lock): Promise<OnceOutcome<T>> {
    let isStored = false;
    const rememberIn = async (query: SqlQuery, result: unknown): Promise<void> => {
      const { insert } = this.results as Partial<SqlResults>;
      if (!insert) throw new LockConfigurationError('attempt.rememberIn needs the results of sqlResults.');
      const stored = this.toStore(call, lock, { kind: 'value', value: result });
      if (!(await insert(query, this.nameOf(call.key), stored, call.options.keepForMs))) {
        throw new OnceError(
          'ONCE_DONE',
          call.key,
          `The work of "${call.key}" was done before. Roll this transaction back.`,
        );
      }
      isStored = true;
    };
    let value: T;
    try {
      value = await call.work({ lock, rememberIn });
    } catch (error) {
      if (error instanceof OnceError && error.code === 'ONCE_DONE') {
        const found = await this.find(call, this.readNow(call.key));
        if (found) return found;
      }
      if (this.isToRemember(error, call, lock))
        await this.store(call, lock, { kind: 'failure', value: failureOf(error) });
      throw error;
    }
    if (!isStored) {
      lock.assertHeld();
      await this.store(call, lock, { kind: 'value', value });
    }
    return { value, isReplay: false };
  }

  /** Asks `rememberFailure`. Its own error becomes an event, so that the caller gets that of the work. After a loss, the successor decides. */
  private isToRemember(error: unknown, { key, options }: Call<unknown>, lock: Lock): boolean {
    if (lock.signal.aborted) return false;
    try {
      return options.rememberFailure?.(error) ?? false;
    } catch (own) {
      this.report(key, 'rememberFailure', own);
      return false;
    }
  }

  private report(key: string, during: string, error: unknown): void {
    ServiceInternals.of(this.locks).events.emit({ type: 'error', key, during, error });
  }

  /** Stores a result. If the result store fails, its error becomes an event, and the caller still gets the outcome of the work. */
  private async store(
    call: Call<unknown>,
    lock: Lock,
    result: Pick<Remembered, 'kind'> & { value: unknown },
  ): Promise<void> {
    const { key, options } = call;
    try {
      await this.results.write(this.nameOf(key), this.toStore(call, lock, result), options.keepForMs);
    } catch (error) {
      this.report(key, 'storing the result', error);
    }
  }

  private toStore(
    { key, fingerprint }: Call<unknown>,
    lock: Lock,
    { kind, value }: Pick<Remembered, 'kind'> & { value: unknown },
  ): StoredResult {
    const text = this.textOf(value);
    const attempt = this.locks.options.chance.uuid();
    const remembered: Remembered =
      typeof text === 'object'
        ? { attempt, fingerprint, kind: 'lost', reason: text.reason }
        : { attempt, fingerprint, kind, text };
    if (remembered.kind === 'lost') {
      const message = `The result of "${key}" ${remembered.reason}. Later calls are refused with ONCE_RESULT_LOST.`;
      ServiceInternals.of(this.locks).events.emit({ type: 'warning', key: undefined, message });
    }
    return { token: lock.fencingToken, text: JSON.stringify(remembered) };
  }

  /** The text of a result, or an object that says why it cannot be stored. `undefined` for the result `undefined`. */
  private textOf(value: unknown): string | undefined | { readonly reason: string } {
    if (value === undefined) return undefined;
    if (streamKindOf(value)) return { reason: 'is a stream, which cannot be stored' };
    try {
      const text = this.serializer.stringify(value);
      if (text === undefined) return { reason: `is ${describeGiven(value)}, which cannot be stored` };
      if (text.length <= this.maxLength) return text;
      return { reason: `has ${text.length} characters, and at most ${this.maxLength} are stored` };
    } catch (error) {
      return { reason: `cannot be stored: ${(error as Error).message}` };
    }
  }

  /**
   * The stored outcome of a key; `undefined` if there is none.
   *
   * @throws OnceError if the call has another fingerprint or the result could not be stored; the remembered error of the work
   */
  private async find<T>(
    { key, fingerprint }: Call<T>,
    reading: Promise<StoredResult | undefined> = this.readTogether(key),
  ): Promise<OnceOutcome<T> | undefined> {
    const stored = await reading;
    if (!stored) return undefined;
    const remembered = readable(key, () => JSON.parse(stored.text) as Remembered);
    if (remembered.fingerprint !== fingerprint) {
      throw new OnceError(
        'ONCE_MISMATCH',
        key,
        `"${key}" was used for something else. Use another key, or send the same request.`,
      );
    }
    const { kind, text, reason = '' } = remembered;
    if (kind === 'lost')
      throw new OnceError(
        'ONCE_RESULT_LOST',
        key,
        `The work of "${key}" was done, and its result ${reason}.`,
      );
    const value = text === undefined ? undefined : readable(key, () => this.serializer.parse(text));
    if (kind === 'failure') throw replayedFailure(value as RememberedFailure);
    return { value: value as T, isReplay: true };
  }

  private readTogether(key: string): Promise<StoredResult | undefined> {
    const reading = this.reads.get(key) ?? this.readNow(key).finally(() => this.reads.delete(key));
    this.reads.set(key, reading);
    return reading;
  }

  private readNow(key: string): Promise<StoredResult | undefined> {
    return this.results.read(this.nameOf(key));
  }

  private nameOf(key: string): string {
    return this.locks.options.keyPrefix + key;
  }
}

/** @throws OnceError for a stored result that cannot be parsed, such as one of another serializer. The work was done, so it does not run again */
function readable<T>(key: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    const why = `cannot be read: ${(cause as Error).message}. If another serializer has stored it, use that one, or once.forget(key)`;
    throw new OnceError('ONCE_RESULT_LOST', key, `The work of "${key}" was done, and its result ${why}.`);
  }
}

/** A hash of what the caller asks for, the same for objects whose properties are in another order. `undefined` for no fingerprint. */
function fingerprintOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const text = JSON.stringify(value, (_, it: unknown) =>
    isPlain(it) ? Object.fromEntries(Object.entries(it).sort(byName)) : it,
  );
  return createHash('sha256').update(String(text)).digest('base64url');
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function byName([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : 1;
}

function failureOf(error: unknown): RememberedFailure {
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
  if (!(error instanceof HttpException)) return { name, message };
  return { name, message, http: { status: error.getStatus(), response: error.getResponse() } };
}

const replayedFailures = new WeakSet<object>();

function replayedFailure({ name, message, http }: RememberedFailure): Error {
  const error = http
    ? new HttpException(http.response, http.status)
    : Object.assign(new Error(message), { name });
  replayedFailures.add(error);
  return error;
}

/** Whether this is an error that an earlier call has thrown, and that was remembered. */
export function isReplayedFailure(error: unknown): boolean {
  return replayedFailures.has(Object(error) as object);
}
