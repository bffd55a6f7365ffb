import { LockConfigurationError } from '../../../port/lock.errors.js';

type Mysql2 = typeof import('mysql2');

/**
 * Only for a connection of our own: a store over a query function needs no mysql2. It is a CommonJS module: an import has it
 * as `default`, the `require` of the CommonJS build has it itself.
 *
 * @throws LockConfigurationError without the package
 */
export async function importMysql2(): Promise<Mysql2> {
  try {
    const mysql2 = (await import('mysql2')) as Mysql2 & { readonly default?: Mysql2 };
    return mysql2.default ?? mysql2;
  } catch (cause) {
    throw new LockConfigurationError(
      'mysqlStore needs the package mysql2, unless it is given { query }: npm install mysql2.',
      { cause },
    );
  }
}
