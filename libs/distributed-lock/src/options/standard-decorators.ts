import { LockConfigurationError } from '../port/lock.errors.js';

/**
 * Refuses a decorator that is called as the standard decorators of JavaScript are, with a value and a context. Nest reads
 * metadata that only legacy decorators set.
 *
 * @param context the second argument; of a legacy decorator the name of the member, or nothing
 * @throws LockConfigurationError
 */
export function refuseStandard(decorator: string, context: unknown): void {
  if (typeof context !== 'object' || context === null || !('kind' in context)) return;
  const { name = 'a class' } = context as { readonly name?: string | symbol };
  throw new LockConfigurationError(
    `${decorator} on ${String(name)}: this code is compiled with standard decorators, which Nest cannot read. Set "experimentalDecorators": true and "emitDecoratorMetadata": true in compilerOptions of tsconfig.json; with SWC jsc.transform.legacyDecorator and decoratorMetadata.`,
  );
}
