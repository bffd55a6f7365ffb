import {
  HttpException,
  Inject,
  Injectable,
  Optional,
  SetMetadata,
  UseGuards,
  applyDecorators,
  createParamDecorator,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { FenceMemory, type Fence } from './fence.js';
import { readFences } from './fencing-headers.js';
import { ProcessFences } from './process-fences.js';

const KEYS = Symbol.for('nestjs-distributed-lock/fenced-keys');
const FENCES = Symbol.for('nestjs-distributed-lock/fences');

const REFUSALS = {
  400: ['LOCK_FENCE_UNREADABLE', 'Fencing-Key and Fencing-Token cannot be read.'],
  428: ['LOCK_FENCE_MISSING', 'Say in Fencing-Key and Fencing-Token under which lock this is asked for.'],
  412: ['LOCK_FENCE_STALE', 'A larger fencing token has been seen: the lock was lost. Nothing was done.'],
} as const;

/** For all modules that provide no `FenceMemory`. */
const processFences = new ProcessFences();

/**
 * Refuses requests whose fencing token is smaller than one that was seen of the same key: 412. A request without the
 * headers of `fencingHeaders(lock)` gets 428, and one with unreadable headers 400.
 *
 * The `FenceMemory` that the module provides remembers the tokens, by default in this process.
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

/** The keys that a request must hold. The resource that the handler writes to decides, not the caller. */
export type FencedKeys = (request: FencedRequest) => string | readonly string[];

/** `keysOf` of `@Fenced` gets these parts of the request, which name a resource. */
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

/** The key and token that the request holds: a `Fence`, to be passed on. The first of several keys, or the named one. */
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
