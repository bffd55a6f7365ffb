import { Inject, Optional } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { refuseStandard } from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import {
  checkOptions,
  describeGiven,
  type OptionRules,
  REGISTRATION_NAME,
  TEXT_OPTION,
} from '../port/option-checks.js';

/** This instance's part in an election. Inject it by `@InjectLeader('poller')`. */
export interface Leader {
  /** The name given to `LeaderModule.forFeature`. */
  readonly name: string;
  /**
   * True while this instance leads and the lease of its lock is valid. Compares the lease with the clock at each use, and
   * asks no store. A frozen process that goes on reads `false`.
   */
  readonly isLeader: boolean;
  /** The term of this instance; `undefined` while `isLeader` is false. */
  readonly term: Term | undefined;
  /**
   * The term of this instance, or `undefined`. A subscriber gets the present one at once, and each change. Completes when
   * the application closes. A listener that throws harms nobody. Its error becomes an `error` event of the `LockService`.
   */
  readonly leader$: Observable<Term | undefined>;
  /**
   * Gives the lead to the next instance in the queue. `term.signal` aborts at once. This instance then waits in the queue
   * again, and is elected again if no other instance waits.
   *
   * Waits for the work of the term, for `shutdownGraceMs` of the registration at most. Then releases the lock, and resolves
   * as soon as the store has confirmed the release, or can no longer do so because the lease is over. Called by that work
   * itself, it waits for neither. Never rejects. Does nothing while this instance does not lead.
   */
  resign(): Promise<void>;
}

/**
 * One stay of this instance in the lead, from its election to its demotion. It has a key and a fencing token, so it is a
 * `Fence` for `fencedRedis`.
 */
export interface Term {
  /** The name given to `LeaderModule.forFeature`. */
  readonly name: string;
  /** The key of the lock: the prefix and the name. */
  readonly key: string;
  /**
   * Larger than the token of each earlier term of this name, on any instance. Pass it to the resource that you write to,
   * and let that refuse smaller ones.
   */
  readonly fencingToken: number;
  /** When this instance was elected, by the time of day of its machine. */
  readonly since: Date;
  /**
   * Aborts when the term is over, no later than the lease of its lock, unless the event loop is blocked. Then it aborts
   * at the first use. Its reason is a `LockLostError`, a `LockShutdownError`, or a `LockNotHeldError` after `resign()` and
   * after an error of an `@OnElected` method. Each listener runs in the async context in which it was added.
   */
  readonly signal: AbortSignal;
}

/** The token of a `Leader`, for `inject` of a factory and for `app.get(…)`. @throws LockConfigurationError for a wrong name */
export function getLeaderToken(name: string): symbol {
  checkLeaderName('getLeaderToken', name);
  // By Symbol.for, so that both builds of this package have the same tokens.
  return Symbol.for(`nestjs-distributed-lock/leader/${name}`);
}

/**
 * Injects the `Leader` of a name. Nest stops the boot if no `LeaderModule.forFeature` has it.
 *
 * @throws LockConfigurationError for a name that is no text, when the class is loaded
 */
export function InjectLeader(name: string): ParameterDecorator & PropertyDecorator {
  checkLeaderName('@InjectLeader', name);
  const inject = Inject(getLeaderToken(name));
  return (target: object, key: string | symbol | undefined, index?: number) => {
    refuseStandard('@InjectLeader', key);
    inject(target, key, index as number);
  };
}

/** The token of all leaders of an application, and the property of objects that have methods only for leaders. */
export const LEADERS = Symbol.for('nestjs-distributed-lock/leaders');

/** Makes Nest set that property on all objects of a class. Optional, because the module may be missing. */
export function injectLeaders(prototype: object): void {
  Inject(LEADERS)(prototype, LEADERS);
  Optional()(prototype, LEADERS);
}

/** @throws LockConfigurationError unless `name` is a text, and not an empty one */
export function checkLeaderName(of: string, name: unknown): void {
  if (typeof name === 'string' && name !== '') return;
  throw new LockConfigurationError(
    `${of} takes the name of a leader, as in ${of}('poller'); it was given ${describeGiven(name)}.`,
  );
}

/** Options of `LeaderModule.forFeature`. */
export interface LeaderOptions {
  /**
   * The registration of `DistributedLockModule` to use; default: the one without a name. Its `watchdogTimeoutMs` says how
   * soon another instance leads after a crash, and its `shutdownGraceMs` how long the work of a term may take to end.
   */
  readonly service?: string;
  /** Text before the name in the key of the lock; default `leader:`. All instances need the same. */
  readonly keyPrefix?: string;
}

const RULES: OptionRules<LeaderOptions> = { service: REGISTRATION_NAME, keyPrefix: TEXT_OPTION };

/** @throws LockConfigurationError for a wrong name, and for options that are unknown or of another type */
export function checkLeader(name: unknown, options: LeaderOptions): void {
  checkLeaderName('LeaderModule.forFeature', name);
  checkOptions('LeaderModule.forFeature', options, RULES);
}
