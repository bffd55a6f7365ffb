import { LockConfigurationError } from '../port/lock.errors.js';

/**
 * Loads a client package, which is a CommonJS module. `import` gives it as `default`. The CommonJS build of this library loads it
 * by `require`, which gives it directly.
 *
 * @throws LockConfigurationError with the message `missing` if the package is not installed
 */
export async function clientPackage<Package>(
  load: () => Promise<unknown>,
  missing: string,
): Promise<Package> {
  try {
    const loaded = (await load()) as Package & { readonly default?: Package };
    return loaded.default ?? loaded;
  } catch (cause) {
    throw new LockConfigurationError(missing, { cause });
  }
}
