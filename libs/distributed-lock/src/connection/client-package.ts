import { LockConfigurationError } from '../port/lock.errors.js';

/**
 * Loads a CommonJS package such as `pg`. In our ESM build `import` returns it as `default`. In our CommonJS build it is compiled to
 * `require`, which returns the package itself.
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
