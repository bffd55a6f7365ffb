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
} from '../nest/nest-metadata.js';
import type { LockedSite } from '../declaration/locked-site.js';
import type { Signature } from '../nest/parameter-names.js';

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
