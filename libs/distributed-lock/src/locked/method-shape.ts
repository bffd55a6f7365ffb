import {
  type AnyClass,
  type AnyFunction,
  answersItself,
  handlerKind,
  handlerParameters,
  isPiped,
  wildcardsOf,
  type HandlerKind,
  type HandlerParameter,
} from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { isReadable } from './handler-values.js';
import type { LockedSite } from './locked-site.js';
import type { LockedOptions } from './locked.options.js';
import { type Signature, signatureOf } from './parameter-names.js';

/** The kind and the parameters of a locked method of one concrete class. */
export interface MethodShape {
  /** `GoodsController.purchase`, for messages. */
  readonly where: string;
  /** `undefined` for a method that only other code calls. */
  readonly kind: HandlerKind | undefined;
  /** The parameters that Nest fills in; empty for a method that is no handler. */
  readonly decorated: readonly HandlerParameter[];
  /** The parameters in its source text. */
  readonly signature: Signature;
  /** Route parameters that come as lists, if no pipe of the method or its class changes them. */
  readonly wildcards: readonly string[];
  /** True for a handler that sends its answer itself, perhaps after it has returned. */
  readonly answersItself: boolean;
}

export function shapeOf(cls: AnyClass, site: LockedSite): MethodShape {
  const { method, isStatic, signature } = site;
  const methods = cls.prototype as Readonly<Record<string | symbol, AnyFunction>> | undefined;
  const fn = isStatic ? undefined : methods?.[method];
  const kind = fn && handlerKind(cls, method, fn);
  const decorated = kind ? handlerParameters(cls, method) : [];
  const wildcards = fn && kind === 'http' && !isPiped(cls, fn) ? wildcardsOf(cls, fn) : [];
  const where = `${cls.name}.${String(method)}`;
  const isOwn = fn !== undefined && answersItself(cls, method, fn);
  return { where, kind, decorated, signature, wildcards, answersItself: isOwn };
}

/** The shape of a method that Nest calls. */
export type HandlerShape = MethodShape & { readonly kind: HandlerKind };

export function isHandler(shape: MethodShape): shape is HandlerShape {
  return shape.kind !== undefined;
}

/** @throws LockConfigurationError for options that a plain method can have and a handler cannot */
export function checkHandler(shape: HandlerShape, site: LockedSite, { onBusy, when }: LockedOptions): void {
  if (site.inner) {
    throw new LockConfigurationError(
      `@Locked on ${shape.where}: there are two on one handler, and only the upper one is around its pipes and interceptors. Write one for both keys: ${bothKeys(site)}.`,
    );
  }
  if (onBusy === 'skip' && shape.kind === 'http') {
    throw new LockConfigurationError(
      `@Locked on ${shape.where}: onBusy 'skip' would answer 200 with nothing; give a function that makes the answer.`,
    );
  }
  if (typeof site.key === 'function') checkArguments(shape, 'key', site.key);
  if (typeof onBusy === 'function') checkArguments(shape, 'onBusy', onBusy);
  if (when) checkArguments(shape, 'when', when);
}

function bothKeys(site: LockedSite): string {
  const keys = [site.key, site.inner?.key].map((key) =>
    typeof key === 'object' ? key.map(({ text }) => `'${text}'`).join(', ') : undefined,
  );
  return keys.includes(undefined) ? 'a key function that returns a list' : `@Locked([${keys.join(', ')}])`;
}

/** Checks that `fn` declares all arguments that it uses, because the library reads no other ones for it. */
function checkArguments(
  { where, kind, decorated }: HandlerShape,
  role: 'key' | 'onBusy' | 'when',
  fn: AnyFunction,
): void {
  const what = `${role} function`;
  // `onBusy` gets the error first.
  const count = role === 'onBusy' ? fn.length - 1 : fn.length;
  const { parameters, gap } = signatureOf(fn);
  if (parameters.some(({ kind }) => kind === 'open')) {
    throw new LockConfigurationError(
      `@Locked on ${where}: the ${what} has a default or a rest parameter; a handler's must name each argument plainly.`,
    );
  }
  if (gap !== undefined) {
    throw new LockConfigurationError(
      `@Locked on ${where}: it cannot be read which arguments the ${what} takes, as it is bound, wrapped, or has a "/" between its parentheses. Write a plain function around it that names each of them.`,
    );
  }
  const missing = decorated.find((it) => it.index < count && !isReadable(it, kind));
  if (missing) {
    throw new LockConfigurationError(
      `@Locked on ${where}: argument ${missing.index} of the handler is not there yet when the ${what} is called.`,
    );
  }
}
