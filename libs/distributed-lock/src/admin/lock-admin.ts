import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { findLockService } from '../distributed-lock.tokens.js';
import type { ForceReleaseOptions } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { snapshotsOf } from '../port/snapshots-of.js';
import { timeOfDay } from '../time/clock.js';
import { refusal, type AdminAnswer } from './admin-answer.js';
import type { LockAdminOptions } from './lock-admin.options.js';
import { lockView } from './lock-view.js';
import type { AdminRequest } from './request.js';

const WHAT_TO_SEND =
  'Send as JSON the key and the owner that you have seen, or a list of owners: { "key": "goods:42", "owner": "…" }. Without an owner, whoever holds the key loses it.';

/** How many keys one request may name. */
const MAX_KEYS = 200;

/** By `Symbol.for`, so that another copy of this package sees the paths of these modules. */
export const ADMIN_OPTIONS = Symbol.for('nestjs-distributed-lock/admin-options');

/** Answers the requests of operators. The controller has asked the guard before. */
@Injectable()
export class LockAdmin implements OnModuleInit {
  readonly canRelease: boolean;
  private service: LockService | undefined;

  constructor(
    @Inject(ADMIN_OPTIONS) private readonly options: LockAdminOptions,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {
    this.canRelease = options.canRelease ?? false;
  }

  /** @throws LockConfigurationError when there is no such registration */
  onModuleInit(): void {
    this.service = findLockService(this.moduleRef, this.options.name, { where: 'LockAdminModule.forRoot' });
  }

  get locks(): LockService {
    if (!this.service)
      throw new LockConfigurationError('LockAdminModule was asked before the boot was over.');
    return this.service;
  }

  /** The facts that the page shows above the list, and whether it offers to release. */
  about(): AdminAnswer {
    const { name, client, options } = this.locks;
    const { keyPrefix } = options;
    return { status: 200, body: { registration: name, client, keyPrefix, canRelease: this.canRelease } };
  }

  /** A page of the list, or the keys that the query names, which the page for operators reads again more often. */
  async list(query: URLSearchParams): Promise<AdminAnswer> {
    const keys = query.getAll('key').slice(0, MAX_KEYS);
    if (keys.length > 0) {
      const { entries, unreadable } = await snapshotsOf(keys, (key) => this.locks.inspect(key));
      return {
        status: 200,
        body: { entries: entries.map((entry) => lockView(entry, this.now)), unreadable },
      };
    }
    const [prefix, cursor, limit] = ['prefix', 'cursor', 'limit'].map((name) => query.get(name) || undefined);
    const page = await this.locks.list({
      prefix,
      cursor,
      limit: limit === undefined ? undefined : Number(limit),
    });
    const entries = page.entries.map((entry) => lockView(entry, this.now));
    return { status: 200, body: { entries, unreadable: page.unreadable, cursor: page.cursor } };
  }

  async inspect(key: string | null): Promise<AdminAnswer> {
    if (!key) return refusal(400, 'Name the key: ?key=goods:42');
    const found = await this.locks.inspect(key);
    if (!found) return refusal(404, `Nobody holds "${key}" or waits for it.`);
    return { status: 200, body: lockView(found, this.now) };
  }

  /** The locks that this process holds, for stores that cannot list. */
  held(): AdminAnswer {
    return { status: 200, body: { client: this.locks.client, holds: this.locks.held() } };
  }

  /** Takes the lock from the holders that the operator was shown. Without an `owner`, from whoever holds it. */
  async release(request: AdminRequest): Promise<AdminAnswer> {
    const body = (request.body ?? {}) as Readonly<Record<string, unknown>>;
    const { key, ...options } = body;
    if (typeof key !== 'string' || key === '') return refusal(400, WHAT_TO_SEND);
    // A misspelt `owner` must not free everybody.
    if (Object.keys(options).some((name) => name !== 'owner')) return refusal(400, WHAT_TO_SEND);
    const by = `${await this.actorOf(request)}, over HTTP`;
    const answer = await this.locks.forceRelease(key, { ...(options as ForceReleaseOptions), by });
    return { status: 200, body: { key, answer } };
  }

  private async actorOf(request: AdminRequest): Promise<string> {
    const actor: unknown = await this.options.actor?.(request);
    if (actor === undefined || (typeof actor === 'string' && actor !== '')) return actor ?? 'an operator';
    throw new TypeError(
      `LockAdminModule.forRoot: actor must return the name of the operator; it returned ${describeGiven(actor)}. Nothing was released.`,
    );
  }

  private get now(): number {
    return timeOfDay(this.locks.options.clock);
  }
}
