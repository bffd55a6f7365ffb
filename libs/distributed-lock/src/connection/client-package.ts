import { LockConfigurationError } from '../port/lock.errors.js';

/**
 * Loads a client package such as `pg`, which is a CommonJS module. In our ESM build `import` returns the package as `default`. In
 * our CommonJS build `import` is compiled to `require`, which returns the package itself.
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
