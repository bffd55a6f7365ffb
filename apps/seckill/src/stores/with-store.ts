import type { Command } from '../command-line/command.js';
import { wrongUsage } from '../command-line/wrong-usage.js';
import { STORE_NAMES, type StoreName } from './store-name.js';

type Environment = Readonly<Record<string, string | undefined>>;

export interface StoreValues {
  readonly instances: number;
  readonly store: StoreName | undefined;
}

/** The option `--store` of the demo and of `npm start`. */
export const STORE = {
  says: 'where the locks are',
  names: STORE_NAMES,
  byDefault: 'memory, and redis for several processes',
} as const;

/**
 * The environment with `STORE` as the command line has it. Several processes share Redis unless a store is named.
 *
 * @throws Error with the usage when several processes should share the memory of one
 */
export function withStore(
  command: Command,
  { instances, store }: StoreValues,
  env: Environment,
): Environment {
  const named = store ?? (env['STORE'] || undefined);
  if (instances < 2) return { ...env, STORE: named };
  if (named !== 'memory') return { ...env, STORE: named ?? 'redis' };
  throw wrongUsage(
    command,
    `The store memory holds locks within one process; there are ${instances} instances.`,
  );
}
