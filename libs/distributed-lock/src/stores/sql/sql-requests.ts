import { WaitingRequests } from '../common/connection/waiting-requests.js';
import type { Swap, Take } from '../core/register.js';
import type { LockRow } from './sql-row.js';

/** The row after a request, and whether the request was done. */
export interface SqlWriteReply {
  readonly isDone: boolean;
  readonly row: LockRow;
}

/** How many rows to read, and after which name. */
export interface Scan {
  readonly after: string;
  readonly most: number;
}

/** Rows of the lock table in order of their names. */
export interface Slice {
  /** The name of the last row that was read. Absent at the end of the table. */
  readonly last: string | undefined;
  /** Names that were free for long. */
  readonly free: readonly string[];
  /** Names of documents that nobody has written for long. */
  readonly unwritten: readonly string[];
}

/** A row was free for this long when it is deleted. Until then its tokens grow, although the server's clock is set back. */
export const FREE_FOR_MS = 10 * 60_000;
/** A document that was not written for this long may belong to crashed processes. */
export const UNWRITTEN_FOR_MS = 60 * 60_000;

/** What one statement can do, and with what, and the reply to it. */
export interface SqlRequestKinds {
  take: { item: SqlTake; reply: SqlWriteReply };
  swap: { item: SqlSwap; reply: SqlWriteReply };
  read: { item: { readonly name: string }; reply: SqlWriteReply };
  /** Reads some rows in order of their names, as the sweeper needs them. */
  scan: { item: { readonly name: string } & Scan; reply: Slice };
  /** Deletes those of these rows that are free for long and not locked. */
  deleteFree: { item: { readonly name: string; readonly names: readonly string[] }; reply: undefined };
  /** Finds out whether the connection still exists. */
  ping: { item: { readonly name: string }; reply: undefined };
}

export type SqlRequestKind = keyof SqlRequestKinds;
export type Item<Kind extends SqlRequestKind> = SqlRequestKinds[Kind]['item'];
export type Reply<Kind extends SqlRequestKind> = SqlRequestKinds[Kind]['reply'];

/** The not-after of the request in ms: the same each time, also when the statement is repeated. */
interface Timed {
  readonly until: () => number;
}
export type SqlTake = Take & Timed;
export type SqlSwap = Swap & Timed;

export function timed<Late extends { notAfter(): number }>(late: Late): Late & Timed {
  let until: number | undefined;
  return { ...late, until: () => (until ??= late.notAfter()) };
}

/** One request that waits for its statement. */
export interface SqlRequest<Kind extends SqlRequestKind = SqlRequestKind> {
  readonly kind: Kind;
  readonly item: Item<Kind>;
  /** The key for errors. */
  readonly key: string | undefined;
  /** Our time when it came, in ms. */
  readonly since: number;
  /** It goes alone, because a statement with others has failed. */
  isAlone?: boolean;
  /** How often it has found its row locked by another transaction, and our time before which it does not ask again. */
  blocked?: { readonly times: number; readonly until: number };
  resolve(reply: Reply<Kind>): void;
  reject(error: unknown): void;
}

/** All replies, in order, or the error of the statement. */
export type Execute = <Kind extends SqlRequestKind>(
  kind: Kind,
  items: readonly Item<Kind>[],
) => Promise<readonly Reply<Kind>[]>;

/** More requests in one statement would take as long as they save. */
const MOST_TOGETHER = 128;
/** One request of these is a statement. */
const ALONE: readonly SqlRequestKind[] = ['scan', 'deleteFree', 'ping'];

/** The requests that wait for the connection. Those of one kind go in one statement, in order of names, each name once. */
export class WaitingSqlRequests extends WaitingRequests<SqlRequest> {
  /** The requests of the next statement: of the kind that has waited longest. None if all of them pause. */
  takeNext(now: number): readonly SqlRequest[] {
    const ready = this.requests.filter((request) => pausesUntil(request) <= now);
    const [first] = ready;
    if (!first) return [];
    const isSingle = (request: SqlRequest) => request.isAlone || ALONE.includes(request.kind);
    const next = new Map<string, SqlRequest>();
    if (isSingle(first)) next.set(first.item.name, first);
    else {
      for (const request of ready) {
        if (next.size === MOST_TOGETHER) break;
        const { name } = request.item;
        if (request.kind === first.kind && !isSingle(request) && !next.has(name)) next.set(name, request);
      }
    }
    const taken = new Set(next.values());
    return [...this.take((request) => taken.has(request))].sort((a, b) => compare(a.item.name, b.item.name));
  }

  /** Our time at which the first pause of a request is over. */
  get nextAt(): number {
    return Math.min(...this.requests.map(pausesUntil));
  }
}

function pausesUntil({ blocked }: SqlRequest): number {
  return blocked?.until ?? -Infinity;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
