import { Inject } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { refuseStandard } from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';

/** This instance's part in an election. Inject it by `@InjectLeader('poller')`. */
export interface Leader {
  /** The name given to `LeaderModule.forFeature`. */
  readonly name: string;
  /**
   * True while this instance leads and the lease of its lock is valid. Each use compares the lease with the clock and sends no request
   * to the store. So a process that was frozen reads `false` as soon as it continues.
   */
  readonly isLeader: boolean;
  /** The term of this instance; `undefined` while `isLeader` is false. */
  readonly term: Term | undefined;
  /**
   * Emits the term of this instance when it is elected, and `undefined` when the term is over. A subscriber gets the present
   * value at once. Completes when the application closes. An error of a listener becomes an `error` event of the `LockService`,
   * and other listeners still run.
   */
  readonly leader$: Observable<Term | undefined>;
  /**
   * Gives the lead to the next instance in the queue. `term.signal` aborts at once. This instance then waits in the queue again, and is
   * elected again if no other instance waits.
   *
   * Waits for the work of the term, for at most `shutdownGraceMs` of the registration. Then releases the lock, and resolves when
   * the store has confirmed the release, at the latest when the lease is over. A call by the work of the term itself waits for
   * neither the work nor the release. Never rejects. Does nothing while this instance does not lead.
   */
  resign(): Promise<void>;
}

/**
 * One stay of this instance in the lead, from its election to its demotion. It has a key and a fencing token, so it can be the `Fence`
 * of `fencedRedis`.
 */
export interface Term {
  /** The name given to `LeaderModule.forFeature`. */
  readonly name: string;
  /** The key of the lock: the option `keyPrefix` and the name. */
  readonly key: string;
  /**
   * Larger than the token of each earlier term of this name, on any instance. Pass it to the resource that you write to, which
   * must refuse smaller tokens.
   */
  readonly fencingToken: number;
  /** When this instance was elected, by the time of day of its machine. */
  readonly since: Date;
  /**
   * Aborts when the term is over, no later than the lease of its lock ends. If the event loop is blocked at that moment, the
   * signal aborts when it is next used. Its reason is a `LockLostError`, a `LockShutdownError`, or, after `resign()` and after an
   * error of an `@OnElected` method, a `LockNotHeldError`. Each listener runs in the async context in which it was added.
   */
  readonly signal: AbortSignal;
}

/**
 * The injection token of the `Leader` of this name, for `inject` of a factory and for `app.get(…)`. @throws LockConfigurationError for
 * a wrong name
 */
export function getLeaderToken(name: string): symbol {
  checkLeaderName('getLeaderToken', name);
  // `Symbol.for` gives the CommonJS and the ESM build of this package the same token.
  return Symbol.for(`nestjs-distributed-lock/leader/${name}`);
}

/**
 * Injects the `Leader` of this name. Nest stops the boot if no `LeaderModule.forFeature` has the name.
 *
 * @throws LockConfigurationError when the class is loaded, if `name` is no string
 */
export function InjectLeader(name: string): ParameterDecorator & PropertyDecorator {
  checkLeaderName('@InjectLeader', name);
  const inject = Inject(getLeaderToken(name));
  return (target: object, key: string | symbol | undefined, index?: number) => {
    refuseStandard('@InjectLeader', key);
    inject(target, key, index as number);
  };
}

/**
 * The injection token of the `Leaders` of an application. Also the property in which Nest puts them into objects with `@OnlyLeader`
 * methods.
 */
export const LEADERS = Symbol.for('nestjs-distributed-lock/leaders');

/** @throws LockConfigurationError unless `name` is a string and not empty */
export function checkLeaderName(of: string, name: unknown): void {
  if (typeof name === 'string' && name !== '') return;
  throw new LockConfigurationError(
    `${of} takes the name of a leader, as in ${of}('poller'); it was given ${describeGiven(name)}.`,
  );
}

/** Options of `LeaderModule.forFeature`. */
export interface LeaderOptions {
  /**
   * The registration of `DistributedLockModule` to use; default: the one without a name. Its `watchdogTimeoutMs` bounds how long it
   * takes until another instance leads after a crash, and its `shutdownGraceMs` how long the work of a term may still take.
   */
  readonly service?: string;
  /** Text before the name in the key of the lock; default `leader:`. It must be the same on all instances. */
  readonly keyPrefix?: string;
}
