import type { LockStoreError } from '../../port/lock.errors.js';
import { storeError } from '../common/connection/connection-errors.js';
import type { NamePage, NameRequest } from '../core/register.js';
import { exists, getChildren } from './client/requests.js';
import { decodeName, encodeName, type LockPaths } from './lock-path.js';
import { found, type Znodes } from './rows.js';

/** One reply has all names. A longer one would delay all other replies, and might be longer than a message can be. */
const MAX_NAMES = 200_000;

/** The names of all znodes of documents. @throws LockStoreError for too many */
export async function documentNames({ session, paths }: Znodes): Promise<readonly string[]> {
  const stat = await found(session, exists(paths.documents));
  const count = stat?.childCount ?? 0;
  if (count > MAX_NAMES) throw tooManyNames(count, paths);
  const children = count > 0 ? await found(session, getChildren(paths.documents)) : undefined;
  return children?.names ?? [];
}

/** The names of the next page, in the order of names. */
export function pageOf(encoded: readonly string[], { prefix, after, most }: NameRequest): NamePage {
  const isNext = (name: string): boolean => name.startsWith(prefix) && (after === undefined || name > after);
  const rest = encoded.flatMap(nameIn).filter(isNext).sort();
  const names = rest.slice(0, most);
  return { names, after: names.length < rest.length ? names.at(-1) : undefined };
}

function tooManyNames(count: number, paths: LockPaths): LockStoreError {
  const detail = `${paths.documents} has ${count} znodes, and its one reply with all their names would hold up the locks from ${MAX_NAMES} on. Those of free locks are deleted after ten minutes. Ask for one key by locks.inspect(key), or each process for locks.held()`;
  return storeError('ZooKeeper', { reason: 'refused', detail });
}

/** The name of a document; none for a znode that somebody made by hand, under a path that no name is encoded to. */
function nameIn(encoded: string): readonly string[] {
  const name = decodeName(encoded);
  return name !== undefined && encodeName(name) === encoded ? [name] : [];
}
