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
import { isLockError, type LockErrorCode } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';
import { snapshotsOf } from '../port/capabilities.js';
import { EventStreams } from './event-stream.js';
import { lockView } from './lock-view.js';
import { pageBody, pageHead, pageScript, pageStyle, pageTail } from './page.generated.js';
import { type AdminReply, type AdminRequest, checkOrigin, queryOf, Refusal } from './request.js';

/** Options of `LockAdminModule.forRoot`. */
export interface LockAdminOptions {
  /**
   * The guard of Nest that decides who may use the page, as a class or an object. Called for each request, of the page and of the
   * API. Required.
   */
  readonly guard: Type<CanActivate> | CanActivate;
  /** The modules whose providers the `guard` class injects. Global modules need not be listed. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  /** The path of the page, below the application's global prefix; default `'locks'`. */
  readonly path?: string;
  /** Whether operators may take a lock from its holder; default `false`: they can only look. */
  readonly canRelease?: boolean;
  /**
   * Returns the name of the operator who sends a request, for the event and the log of a release, and for the holder that loses
   * its lock. Called with the request of Express or Fastify, after the guard. Default: `'an operator'`. If it throws, nothing is
   * released.
   */
  readonly actor?: (request: any) => string | undefined | Promise<string | undefined>;
  /** The registration of `DistributedLockModule` to show; default: the one without a name. */
  readonly name?: string;
}

/**
 * Made by `Symbol.for`, so that the module of another copy of this package finds these options, and notices when both have the
 * same path.
 */
export const ADMIN_OPTIONS = Symbol.for('nestjs-distributed-lock/admin-options');

const HEADERS = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/** One request may list at most this many keys. */
const MAX_KEYS = 200;

const WHAT_TO_SEND =
  'Send as JSON the key and the owner that you have seen, or a list of owners: { "key": "goods:42", "owner": "…" }. Without an owner, whoever holds the key loses it.';

/**
 * Answers the requests of operators that the guard has let in. The routes read the request and write the response themselves, so
 * that the application's pipes and interceptors, which may wrap every response, have no effect here.
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

  /** Returns what the page shows above the list, and whether operators may release. */
  @Get('api/about')
  about(@Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => {
      const { name, client, options } = this.locks;
      const { canRelease = false } = this.options;
      return { registration: name, client, keyPrefix: options.keyPrefix, canRelease };
    });
  }

  /** Returns one page of the list, or the keys in the query. The browser uses the latter to refresh the keys that it shows. */
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

  /** Returns one key. The key is a query parameter, because it may contain slashes and dots, which a path would not preserve. */
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

  /** Returns the locks that this process holds, for stores that cannot list keys. */
  @Get('api/held')
  held(@Res() reply: AdminReply): Promise<void> {
    return this.answer(reply, () => ({ client: this.locks.client, holds: this.locks.held() }));
  }

  @Get('api/events')
  events(@Req() request: AdminRequest, @Res() reply: AdminReply): void {
    this.streams.add(request, reply, this.locks);
  }

  /**
   * Takes the lock from the owners in the request, which are those that the operator saw. Without an `owner`, from whoever holds
   * it.
   */
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
      // Refuse unknown parameters: with a misspelt `owner`, every holder would lose the lock.
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
   * Looked up at each use and not at boot: with a request-scoped guard Nest creates this controller for each request, and calls
   * no hooks of it.
   */
  private get locks(): LockService {
    return findLockService(this.moduleRef, this.options.name, { where: 'LockAdminModule.forRoot' });
  }

  private viewOf(lock: LockInspection): object {
    return lockView(lock, timeOfDay(this.locks.options.clock));
  }

  /** Sends the result of `work`, or its lock error. Rejects with any other error, which Nest then answers. */
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
 * The HTTP status and the JSON body for an error. The page shows the message as it is. 501: the store does not support the
 * request.
 *
 * @throws the error itself, if it is neither a `Refusal` nor a lock error
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

/** Creates a controller class for each import of the module, because Nest stores path and guards on the class. */
export function adminController(path: string, guard: Type<CanActivate> | CanActivate): Type {
  @Controller({ path, version: VERSION_NEUTRAL })
  @UseGuards(guard)
  class LockAdminController extends AdminRoutes {}
  return LockAdminController;
}

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** The HTML page with its style and script. It is the same for everybody: the script gets the data from the JSON API. */
const ADMIN_PAGE = `${pageHead}<style>${pageStyle}</style>${pageBody}<script type="module">${pageScript}</script>${pageTail}`;

/**
 * With this policy the browser loads nothing from other servers, and runs only the page's own script, even if an attacker injects
 * another one.
 */
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
