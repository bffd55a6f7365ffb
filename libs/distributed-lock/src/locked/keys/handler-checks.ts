import { LockConfigurationError } from '../../port/lock.errors.js';
import { isReadable } from './handler-values.js';
import type { AnyFunction, HandlerKind } from '../nest/nest-metadata.js';
import type { LockedSite } from '../declaration/locked-site.js';
import type { LockedOptions } from '../declaration/locked.options.js';
import type { MethodShape } from './method-shape.js';
import { signatureOf } from '../nest/parameter-names.js';

type HandlerShape = MethodShape & { readonly kind: HandlerKind };

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
  if (typeof site.key === 'function') checkArguments(shape, 'key function', site.key, 0);
  if (typeof onBusy === 'function') checkArguments(shape, 'onBusy function', onBusy, 1);
  if (when) checkArguments(shape, 'when function', when, 0);
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
  what: string,
  fn: AnyFunction,
  before: number,
): void {
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
  const missing = decorated.find((it) => it.index < fn.length - before && !isReadable(it, kind));
  if (missing) {
    throw new LockConfigurationError(
      `@Locked on ${where}: argument ${missing.index} of the handler is not there yet when the ${what} is called.`,
    );
  }
}
