import type { PipedRequest } from '../common/connection/request-pipe.js';
import { WaitingRequests } from '../common/connection/waiting-requests.js';
import type { BatchedStatements, Named, SqlLink } from './sql-database.js';
import { minOf } from '../../collections/extremes.js';

/** More requests in one statement would take as long as they save. */
const MAX_TOGETHER = 128;

/** The requests that wait for the connection. Those of one kind go in one statement, in order of names, each name once. */
export class WaitingSqlRequests extends WaitingRequests<SqlRequest> {
  /** The requests of the next statement: of the kind that has waited longest. None if all of them pause. */
  takeNext(now: number): readonly SqlRequest[] {
    const ready = this.requests.filter((request) => pausesUntil(request) <= now);
    const [first] = ready;
    if (!first) return [];
    const isSingle = (request: SqlRequest) => request.isAlone || typeof request.kind === 'function';
    const next = new Map([[first.item.name, first]]);
    if (!isSingle(first)) {
      for (const request of ready) {
        if (next.size === MAX_TOGETHER) break;
        const { name } = request.item;
        if (request.kind === first.kind && !isSingle(request) && !next.has(name)) next.set(name, request);
      }
    }
    const taken = new Set(next.values());
    return [...this.take((request) => taken.has(request))].sort((a, b) => compare(a.item.name, b.item.name));
  }

  /** Our time at which the first pause of a request is over. */
  get nextAt(): number {
    return minOf(this.requests.map(pausesUntil));
  }
}

export type BatchedKind = keyof BatchedStatements;
export type SqlItem<Kind extends BatchedKind> = Parameters<BatchedStatements[Kind]>[0][number];
export type SqlReply<Kind extends BatchedKind> = Awaited<ReturnType<BatchedStatements[Kind]>>[number];

export interface SqlRequest extends PipedRequest {
  /** The statement for several requests of its kind together, or a function that sends a statement for this one alone. */
  readonly kind: BatchedKind | ((link: SqlLink) => Promise<unknown>);
  readonly item: Named;
  /** The request goes alone, because a statement with others has failed. */
  isAlone?: boolean;
  /** How often the request has found its row locked by another transaction, and our time until which it pauses. */
  blocked?: { readonly times: number; readonly until: number };
  resolve(reply: never): void;
}

function pausesUntil({ blocked }: SqlRequest): number {
  return blocked?.until ?? -Infinity;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
