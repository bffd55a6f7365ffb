import {
  applyDecorators,
  type CanActivate,
  createParamDecorator,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  Optional,
  SetMetadata,
  UseGuards,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Lock } from '../lock/lock.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeGiven } from '../port/option-checks.js';
import { assertAlone, type Fence, FenceMemory, NESTED_WRITES, type NestedWrites } from './fence.js';

/** Two HTTP headers with lists in the same order: this one has the keys, percent-encoded, the other one their tokens. */
const FENCING_KEY = 'fencing-key';
const FENCING_TOKEN = 'fencing-token';

/** A token that is more than a day ahead of our clock is refused as forged. Real tokens are the µs of a clock, or smaller. */
const MAX_LEAD_US = 24 * 3600 * 1e6;
const MAX_KEYS = 100;

/**
 * Makes the headers that pass the keys and tokens of a lock to another service. That service refuses stale tokens by `@Fenced`.
 *
 * `fetch(url, { headers: fencingHeaders(lock) })`
 */
export function fencingHeaders(
  lock: Pick<Lock, 'keys' | 'tokenOf'> & Pick<Fence, 'depth' | 'calls'>,
  options: FencingHeadersOptions = {},
): Record<'fencing-key' | 'fencing-token', string> {
  checkOptions('fencingHeaders', options, { nested: NESTED_WRITES });
  const { depth, calls } = lock;
  assertAlone({ key: lock.keys.join(', '), depth, calls }, options.nested);
  const keys = lock.keys.map((key) => encodeURIComponent(key));
  const tokens = lock.keys.map((key) => lock.tokenOf(key));
  return { [FENCING_KEY]: keys.join(', '), [FENCING_TOKEN]: tokens.join(', ') } as const;
}

/** Options of `fencingHeaders`. */
export interface FencingHeadersOptions {
  /** Whether a nested call, which shares its caller's lock and token, may send that token to another service; default `'allow'`. */
  readonly nested?: NestedWrites;
}

/**
 * Parses the fences in the headers of a request.
 *
 * @returns an empty list when there are none; `undefined` when they cannot be parsed, or when a token is more than a day ahead of
 * the clock. If such a token were remembered, all real ones would be refused.
 */
function readFences(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): readonly Fence[] | undefined {
  const keys = listOf(headers[FENCING_KEY]);
  const tokens = listOf(headers[FENCING_TOKEN]);
  if (keys.length !== tokens.length || keys.length > MAX_KEYS) return undefined;
  const fences = keys.map((key, i) => ({ key: decoded(key), fencingToken: tokenIn(tokens[i] as string) }));
  return fences.every(isWhole) ? fences : undefined;
}

function isWhole(fence: { key: string | undefined; fencingToken: number | undefined }): fence is Fence {
  return fence.key !== undefined && fence.fencingToken !== undefined;
}

function listOf(header: string | readonly string[] | undefined): string[] {
  const text = Array.isArray(header) ? header.join(',') : ((header as string | undefined) ?? '');
  return text === '' ? [] : text.split(',').map((part) => part.trim());
}

function tokenIn(text: string): number | undefined {
  const token = /^\d{1,16}$/.test(text) ? Number(text) : 0;
  return token >= 1 && token <= Date.now() * 1000 + MAX_LEAD_US ? token : undefined;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text) || undefined;
  } catch {
    return undefined;
  }
}

/**
 * Remembers tokens in this process, for a service with one instance and for tests.
 *
 * If a service has several instances, each sees only a part of the requests, so they must share a memory, such as
 * `fencedRedis(client)`. When this memory is full, it forgets the key whose token was raised longest ago.
 */
export class ProcessFences extends FenceMemory {
  private readonly seen = new Map<string, number>();

  /** @param most how many keys to remember; default 100 000 */
  constructor(private readonly most = 100_000) {
    super();
    if (!Number.isInteger(most) || most < 1) {
      throw new LockConfigurationError(
        `ProcessFences takes how many keys it remembers, 1 or more; it was given ${typeof most === 'number' ? most : describeGiven(most)}.`,
      );
    }
  }

  /** Stores `token` in this process if it is the largest so far, as `FenceMemory` demands. */
  raise(key: string, token: number): number {
    const largest = Math.max(token, this.seen.get(key) ?? 0);
    // Delete before setting, so that the key moves to the end of the map. Its first key is then the one raised longest ago.
    this.seen.delete(key);
    this.seen.set(key, largest);
    if (this.seen.size > this.most) this.seen.delete(this.seen.keys().next().value as string);
    return largest;
  }
}

const KEYS = Symbol.for('nestjs-distributed-lock/fenced-keys');
const FENCES = Symbol.for('nestjs-distributed-lock/fences');

const REFUSALS = {
  400: ['LOCK_FENCE_UNREADABLE', 'Fencing-Key and Fencing-Token cannot be read.'],
  428: ['LOCK_FENCE_MISSING', 'Say in Fencing-Key and Fencing-Token under which lock this is asked for.'],
  412: ['LOCK_FENCE_STALE', 'A larger fencing token has been seen: the lock was lost. Nothing was done.'],
} as const;

/** Used by all modules that provide no `FenceMemory`. */
const processFences = new ProcessFences();

/**
 * Refuses a request with 412 if its fencing token is smaller than one that was seen for the same key. A request without the
 * headers of `fencingHeaders(lock)` gets 428, and one with unreadable headers 400.
 *
 * The tokens are remembered by the `FenceMemory` that the module provides, by default in this process.
 */
@Injectable()
export class FencedGuard implements CanActivate {
  constructor(
    @Inject(Reflector) private readonly reflector: Reflector,
    @Optional() @Inject(FenceMemory) private readonly memory: FenceMemory = processFences,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') {
      throw new LockConfigurationError('@Fenced reads HTTP headers: it is for handlers of HTTP requests.');
    }
    const request = context.switchToHttp().getRequest<CheckedRequest>();
    const headerFences = readFences(request.headers);
    if (!headerFences) throw refusalError(400);
    const keysOf = this.reflector.getAllAndOverride<FencedKeys | undefined>(KEYS, [
      context.getHandler(),
      context.getClass(),
    ]);
    const fences = keysOf
      ? [keysOf(request)].flat().map((key) => headerFences.find((it) => it.key === key))
      : headerFences;
    if (fences.length === 0) throw refusalError(428);
    for (const fence of fences) {
      if (!fence) throw refusalError(428);
      if ((await this.memory.raise(fence.key, fence.fencingToken)) > fence.fencingToken)
        throw refusalError(412);
    }
    request[FENCES] = fences as readonly Fence[];
    return true;
  }
}

/**
 * Returns the keys that a request must hold. They depend on the resource that the handler writes to, not on what the caller
 * sends.
 */
export type FencedKeys = (request: FencedRequest) => string | readonly string[];

/** The parts of a request that identify a resource, for `keysOf` of `@Fenced`. */
export interface FencedRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly body: unknown;
}

interface CheckedRequest extends FencedRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  [FENCES]?: readonly Fence[];
}

/**
 * Puts `FencedGuard` before a handler or a controller.
 *
 * The guard refuses requests that arrive late. A handler that began before a newer holder came goes on, so pass
 * `@CurrentFence()` on to the resource that you write to, and let that refuse it.
 *
 * @param keysOf the keys that a request must hold, from the request, as
 * ``(request) => lockKey`goods:${request.params['id']}` ``;
 * without it the caller names the key, so leave it out only for callers that cannot name a wrong one
 */
export function Fenced(keysOf?: FencedKeys): ClassDecorator & MethodDecorator {
  if (keysOf !== undefined && typeof keysOf !== 'function') {
    throw new LockConfigurationError(
      `@Fenced takes a function of the request that gives its keys; it was given ${describeGiven(keysOf)}.`,
    );
  }
  return applyDecorators(SetMetadata(KEYS, keysOf), UseGuards(FencedGuard));
}

/**
 * Injects the key and token of the request as a `Fence`, to be passed on to the resource. If the request has several: the first
 * one, or the one of the named key.
 */
export const CurrentFence = createParamDecorator(
  (key: string | undefined, context: ExecutionContext): Fence => {
    const fences = context.switchToHttp().getRequest<CheckedRequest>()[FENCES] ?? [];
    const fence = key === undefined ? fences[0] : fences.find((it) => it.key === key);
    if (fence) return fence;
    throw new LockConfigurationError('@CurrentFence() needs @Fenced() on the handler or its controller.');
  },
);

function refusalError(status: keyof typeof REFUSALS): HttpException {
  const [code, message] = REFUSALS[status];
  return new HttpException({ statusCode: status, message, code }, status);
}
