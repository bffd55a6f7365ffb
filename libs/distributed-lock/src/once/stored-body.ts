// How the body of a response is stored, so that a repeated request gets the same one. JSON keeps neither bytes nor classes.
import { ClassSerializerInterceptor, type ExecutionContext, type Type } from '@nestjs/common';
import type { ApplicationConfig } from '@nestjs/core';
import { lastValueFrom, of } from 'rxjs';
import { streamKindOf } from '../lock/streams/held-stream.js';
import { hasAppConfig } from '../nest/app-config.js';
import type { HandlerValues } from '../nest/handler-values.js';
import { enhancers } from '../nest/metadata.js';

/** A body as it is stored. `bytes` is its content in base64 if it is a `Buffer` or another `Uint8Array`. */
export interface StoredBody {
  readonly body?: unknown;
  readonly bytes?: { readonly isBuffer: boolean; readonly base64: string };
}

export function bodyOf({ body, bytes }: StoredBody): unknown {
  if (!bytes) return body;
  const buffer = Buffer.from(bytes.base64, 'base64');
  return bytes.isBuffer ? buffer : new Uint8Array(buffer);
}

/** Makes what is stored of the results of handlers. */
export class BodyWriter {
  /** @param self the interceptor of `@Once`. Interceptors outside of it see each result, also one that was stored */
  constructor(
    private readonly self: Type,
    private readonly values: HandlerValues,
    private readonly config: ApplicationConfig,
  ) {}

  async stored(body: unknown, context: ExecutionContext): Promise<StoredBody> {
    if (!(body instanceof Uint8Array)) return { body: await this.plain(body, context) };
    return { bytes: { isBuffer: Buffer.isBuffer(body), base64: Buffer.from(body).toString('base64') } };
  }

  /**
   * Passes a result through each `ClassSerializerInterceptor` outside of `@Once`, which reads the decorators of a class, such as
   * `@Exclude()`. A stored result has no class any more, so for a repeated request the interceptor would hide nothing.
   */
  private async plain(result: unknown, context: ExecutionContext): Promise<unknown> {
    try {
      if (streamKindOf(result)) throw new TypeError('it is a stream');
      if (!hasInstance(result)) return result;
      let plain = result;
      for (const serializer of await this.serializersOf(context)) {
        plain = await lastValueFrom(await serializer.intercept(context, { handle: () => of(plain) }));
      }
      return plain;
    } catch (error) {
      // The work was done, and must not be repeated. So let the result count as one that cannot be stored.
      const refuse = (): never => {
        throw error;
      };
      return { toJSON: refuse };
    }
  }

  /** Innermost first. */
  private async serializersOf(context: ExecutionContext): Promise<readonly ClassSerializerInterceptor[]> {
    const ofMethod = enhancers.of('interceptors', context.getHandler());
    const around = [
      ...enhancers.of('interceptors', context.getClass()),
      ...ofMethod.slice(0, ofMethod.indexOf(this.self)),
    ];
    const { config, values } = this;
    const global = hasAppConfig(context) ? config.getGlobalInterceptors() : [];
    const bound = around.map((it) => (isSerializerClass(it) ? values.instanceOf(it, context) : it));
    const all: unknown[] = [...global, ...(await Promise.all(bound))];
    return all.filter((it) => it instanceof ClassSerializerInterceptor).reverse();
  }
}

function isSerializerClass(it: unknown): it is Type<ClassSerializerInterceptor> {
  if (typeof it !== 'function') return false;
  return it === ClassSerializerInterceptor || it.prototype instanceof ClassSerializerInterceptor;
}

/** Whether an object of a class is in the value, at any depth. */
function hasInstance(value: unknown, seen = new Set<unknown>()): boolean {
  if (typeof value !== 'object' || value === null || seen.has(value)) return false;
  seen.add(value);
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === Object.prototype || prototype === null || Array.isArray(value);
  return !isPlain || Object.values(value).some((it) => hasInstance(it, seen));
}
