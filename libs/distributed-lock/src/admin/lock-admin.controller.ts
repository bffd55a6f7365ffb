import { createHash } from 'node:crypto';
import {
  type CanActivate,
  Controller,
  Get,
  Inject,
  Post,
  Req,
  Res,
  type Type,
  UseGuards,
  VERSION_NEUTRAL,
} from '@nestjs/common';
import type { ModuleMetadata } from '@nestjs/common';
import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { timeOfDay } from '../common/clock.js';
import { promiseOf } from '../common/promises.js';
import { findLockService } from '../distributed-lock.tokens.js';
import type { ForceReleaseOptions, LockInspection } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { isLockError, LockConfigurationError, type LockErrorCode } from '../port/lock.errors.js';
import {
  BOOLEAN_OPTION,
  checkOptions,
  describeGiven,
  type OptionRules,
  REGISTRATION_NAME,
} from '../port/option-checks.js';
import { snapshotsOf } from '../port/timing.js';
import { EventStreams } from './event-stream.js';
import { lockView } from './lock-view.js';
import { pageBody, pageHead, pageScript, pageStyle, pageTail } from './page.generated.js';
import { type AdminReply, type AdminRequest, checkOrigin, queryOf, Refusal } from './request.js';

/** Options of `LockAdminModule.forRoot`. */
export interface LockAdminOptions {
  /**
   * Decides who gets in: a guard of Nest, as a class or an object. It is asked at each request, for the page and for each route.
   * There is no default.
   */
  readonly guard: Type<CanActivate> | CanActivate;
  /** The modules whose providers a `guard` class injects; global modules need not be named. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  /** Where the page is, after the global prefix of the application; default `'locks'`. */
  readonly path?: string;
  /** Offers to take a lock from its holder; default `false`: operators only read. */
  readonly canRelease?: boolean;
  /**
   * Names the operator who sends a request, for the event and the log of a release, and for the holder that loses its lock. Gets
   * the request of Express or Fastify, which the guard has passed. Default: `'an operator'`. If it throws, nothing is released.
   */
  readonly actor?: (request: any) => string | undefined | Promise<string | undefined>;
  /** The registration of `DistributedLockModule` to show; default: the one without a name. */
  readonly name?: string;
}

/** By `Symbol.for`, so that another copy of this package sees the paths of these modules. */
export const ADMIN_OPTIONS = Symbol.for('nestjs-distributed-lock/admin-options');

const RULES: OptionRules<LockAdminOptions> = {
  guard: true,
  imports: true,
  path: [(value) => typeof value === 'string' && /[^/\s]/.test(value), "a text such as 'locks'"],
  canRelease: BOOLEAN_OPTION,
  actor: [(value) => typeof value === 'function', 'a function of the request that names the operator'],
  name: REGISTRATION_NAME,
};

/** @throws LockConfigurationError without a guard, and for options that are unknown or of another type */
export function checkAdmin(options: LockAdminOptions): void {
  checkOptions('LockAdminModule.forRoot', options, RULES);
  if (!mayBeGuard(options.guard)) throw guardError(options.guard);
}

/** @throws LockConfigurationError when there is no such registration */
export function adminLocks(moduleRef: ModuleRef, { name }: LockAdminOptions): LockService {
  return findLockService(moduleRef, name, { where: 'LockAdminModule.forRoot' });
}

/** A class may make `canActivate` in its constructor, as a field does: its instance is looked at when the application boots. */
function mayBeGuard(guard: unknown): boolean {
  return typeof guard === 'function' ? guard.prototype !== undefined : isGuard(guard);
}

export function isGuard(guard: unknown): boolean {
  return typeof (guard as CanActivate | null | undefined)?.canActivate === 'function';
}

export function guardError(guard: unknown): LockConfigurationError {
  return new LockConfigurationError(
    `LockAdminModule.forRoot needs a guard, because its page names keys, hosts and processes; it was given ${describeGiven(guard)}. Pass a class or an object with canActivate(): guard: OpsGuard.`,
  );
}

const HEADERS = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/** How many keys one request may name. */
const MAX_KEYS = 200;

const WHAT_TO_SEND =
  'Send as JSON the key and the owner that you have seen, or a list of owners: { "key": "goods:42", "owner": "…" }. Without an owner, whoever holds the key loses it.';

/**
 * Answers the requests of operators that the guard has let in. The routes read the request and write the reply themselves, so that
 * pipes and interceptors of the application, which may wrap every answer, change nothing here.
 */
class AdminRoutes {
  constructor(
    @Inject(ADMIN_OPTIONS) private readonly options: LockAdminOptions,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(EventStreams) private readonly streams: EventStreams,
  ) {}

  @Get()
  page(@Res() reply: AdminReply): void {
    const headers = { ...ADMIN_PAGE_HEADERS, 'Content-Type': 'text/html; charset=utf-8' };
    this.send(reply, { status: 200, headers, text: ADMIN_PAGE });
  }

  /** The facts that the page shows above the list, and whether it offers to release. */
  @Get('api/about')
  about(@Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => {
      const { name, client, options } = this.locks;
      const { canRelease = false } = this.options;
      return { registration: name, client, keyPrefix: options.keyPrefix, canRelease };
    });
  }

  /**
   * Answers with a page of the list, or with the keys that the query names. The page for operators often reads the keys again that
   * it shows.
   */
  @Get('api/locks')
  list(@Req() request: AdminRequest, @Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, async () => {
      const query = queryOf(request);
      const keys = query.getAll('key').slice(0, MAX_KEYS);
      if (keys.length > 0) {
        const { entries, unreadable } = await snapshotsOf(keys, (key) => this.locks.inspect(key));
        return { entries: entries.map((entry) => this.viewOf(entry)), unreadable };
      }
      const [prefix, cursor, limit] = ['prefix', 'cursor', 'limit'].map(
        (name) => query.get(name) || undefined,
      );
      const page = await this.locks.list({
        prefix,
        cursor,
        limit: limit === undefined ? undefined : Number(limit),
      });
      return { ...page, entries: page.entries.map((entry) => this.viewOf(entry)) };
    });
  }

  /** The key is a parameter and no part of the path, because it may have slashes and dots. */
  @Get('api/lock')
  inspect(@Req() request: AdminRequest, @Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, async () => {
      const key = queryOf(request).get('key');
      if (!key) throw new Refusal(400, 'Name the key: ?key=goods:42');
      const found = await this.locks.inspect(key);
      if (!found) throw new Refusal(404, `Nobody holds "${key}" or waits for it.`);
      return this.viewOf(found);
    });
  }

  /** The locks that this process holds, for stores that cannot list. */
  @Get('api/held')
  held(@Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => ({ client: this.locks.client, holds: this.locks.held() }));
  }

  @Get('api/events')
  events(@Req() request: AdminRequest, @Res() reply: AdminReply): void {
    this.streams.add(request, reply, this.locks);
  }

  /** Takes the lock from the holders that the operator was shown. Without an `owner`, from whoever holds it. */
  @Post('api/release')
  release(@Req() request: AdminRequest, @Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, async () => {
      if (!this.options.canRelease) {
        throw new Refusal(
          403,
          'This page only reads. LockAdminModule.forRoot({ canRelease: true }) lets it release.',
        );
      }
      checkOrigin(request);
      const { key, ...options } = (request.body ?? {}) as Readonly<Record<string, unknown>>;
      // A misspelt `owner` must not free everybody.
      const isKnown = Object.keys(options).every((name) => name === 'owner');
      if (typeof key !== 'string' || key === '' || !isKnown) throw new Refusal(400, WHAT_TO_SEND);
      const by = `${await this.actorOf(request)}, over HTTP`;
      const answer = await this.locks.forceRelease(key, { ...(options as ForceReleaseOptions), by });
      return { key, answer };
    });
  }

  private async actorOf(request: AdminRequest): Promise<string> {
    const actor: unknown = await this.options.actor?.(request);
    if (actor === undefined || (typeof actor === 'string' && actor !== '')) return actor ?? 'an operator';
    throw new TypeError(
      `LockAdminModule.forRoot: actor must return the name of the operator; it returned ${describeGiven(actor)}. Nothing was released.`,
    );
  }

  /**
   * Looked up at each use: with a request-scoped guard Nest makes a new object of these routes for each request, and calls no hook
   * of it.
   */
  private get locks(): LockService {
    return adminLocks(this.moduleRef, this.options);
  }

  private viewOf(lock: LockInspection): object {
    return lockView(lock, timeOfDay(this.locks.options.clock));
  }

  /** Sends what `work` gives, or its lock error. Rejects with other errors, which Nest answers. */
  private async answer(reply: AdminReply, work: () => object | Promise<object>): Promise<void> {
    const [status, body] = await promiseOf(work).then((result) => [200, result] as const, failure);
    const headers = {
      'Content-Type': 'application/json; charset=utf-8',
      ...(status === 503 && { 'Retry-After': '1' }),
    };
    this.send(reply, { status, headers, text: JSON.stringify(body) });
  }

  private send(reply: AdminReply, { status, headers, text }: Answer): void {
    const { httpAdapter } = this.moduleRef.get(HttpAdapterHost, { strict: false });
    for (const [name, value] of Object.entries({ ...HEADERS, ...headers })) {
      httpAdapter.setHeader(reply, name, value);
    }
    httpAdapter.reply(reply, text, status);
  }
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

const STATUS: Partial<Record<LockErrorCode, number>> = {
  LOCK_CONFIGURATION: 400,
  LOCK_KEY: 400,
  LOCK_STORE: 503,
  LOCK_SHUTDOWN: 503,
};

/**
 * The status and the body for an error. Operators read the message as it is. 501: the store cannot do that. @throws an error that
 * is neither a refusal nor of a lock
 */
function failure(error: unknown): readonly [status: number, body: object] {
  if (error instanceof Refusal) {
    const { status, message } = error;
    return [status, { error: { status, message } }];
  }
  if (!isLockError(error)) throw error;
  const { code, message, reason } = error as typeof error & { readonly reason?: string };
  const status = reason === 'refused' ? 501 : (STATUS[code] ?? 500);
  return [status, { error: { status, code, message } }];
}

/** A class for each import of the module, because Nest keeps path and guards at the class. */
export function adminController(path: string, guard: Type<CanActivate> | CanActivate): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  @UseGuards(guard)
  class LockAdminController extends AdminRoutes {}
  return LockAdminController;
}

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** The page, with its style and its script. Everybody gets the same text, and the script asks the JSON API for the rest. */
const ADMIN_PAGE = `${pageHead}<style>${pageStyle}</style>${pageBody}<script type="module">${pageScript}</script>${pageTail}`;

/** The browser loads nothing from other servers, and runs no script but the one of the page, even if an attacker injects one. */
const ADMIN_PAGE_HEADERS = {
  'Content-Security-Policy': [
    "default-src 'none'",
    `script-src ${hashOf(pageScript)}`,
    `style-src ${hashOf(pageStyle)}`,
    'img-src data:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Frame-Options': 'DENY',
};
