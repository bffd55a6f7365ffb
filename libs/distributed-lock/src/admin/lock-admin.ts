import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { findLockService } from '../distributed-lock.tokens.js';
import { warn } from '../lock/events/service-internals.js';
import type { LockService } from '../lock/lock.service.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { timeOfDay } from '../time/clock.js';
import { refusal, type AdminAnswer } from './admin-answer.js';
import type { LockAdminOptions } from './lock-admin.options.js';
import { lockView } from './lock-view.js';

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
    this.service = findLockService(this.moduleRef, this.options.name, 'LockAdminModule.forRoot', 'name');
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

  async list(query: URLSearchParams): Promise<AdminAnswer> {
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

  async release(key: unknown): Promise<AdminAnswer> {
    if (typeof key !== 'string' || key === '') {
      return refusal(400, 'Send the key as JSON: { "key": "goods:42" }');
    }
    const answer = await this.locks.forceRelease(key);
    if (answer === 'released') {
      warn(this.locks, `"${key}" was released by force, by an operator over HTTP.`);
    }
    return { status: 200, body: { key, answer } };
  }

  private get now(): number {
    return timeOfDay(this.locks.options.clock);
  }
}
