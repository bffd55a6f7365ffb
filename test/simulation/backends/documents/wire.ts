import {
  serializeDocument,
  serializeNote,
  serializeFirstGrant,
} from '../../../../libs/distributed-lock/src/document/json.js';
import type { LockRow, SqlLink } from '../../../../libs/distributed-lock/src/sql/database.js';
import type { Swap, Take } from '../../../../libs/distributed-lock/src/document/timed-register.js';

/** A request as it is sent: what the statements of a driver have as parameters. */
export type WireRequest =
  | { readonly kind: 'hello' }
  | { readonly kind: 'listen'; readonly channel: string }
  | { readonly kind: 'take'; readonly items: readonly WireTake[] }
  | { readonly kind: 'swap'; readonly items: readonly WireSwap[] }
  | { readonly kind: 'read'; readonly items: readonly { readonly name: string }[] }
  | { readonly kind: 'scan'; readonly after: string; readonly most: number }
  | { readonly kind: 'deleteFree'; readonly names: readonly string[] }
  | { readonly kind: 'ping' };

export interface WireTake {
  readonly name: string;
  readonly state: string;
  readonly tokens: number;
  readonly minToken: number;
  readonly notes: readonly string[];
  readonly until: number;
}

export interface WireSwap {
  readonly name: string;
  readonly version: number | undefined;
  readonly notesRead: number;
  readonly failOnUnreadNotes: boolean;
  readonly state: string | null;
  readonly last: number;
  readonly notified: readonly string[];
  readonly mayBeForgotten: boolean;
  readonly until: number;
}

export type WireReply =
  | { readonly now: number }
  | { readonly replies: readonly unknown[] }
  | { readonly refused: string }
  | { readonly notified: string };

export interface RowReply {
  readonly isDone: boolean;
  readonly row: LockRow;
}

export type BatchedKind = 'take' | 'swap' | 'read';

/** The not-after is worked out now, just before the request is sent. */
export function requestOf(kind: BatchedKind, items: Parameters<SqlLink[BatchedKind]>[0]): WireRequest {
  switch (kind) {
    case 'take':
      return { kind, items: items.map((item) => wireTake(item as Take)) };
    case 'swap':
      return { kind, items: items.map((item) => wireSwap(item as Swap)) };
    case 'read':
      return { kind, items: items.map(({ name }) => ({ name })) };
  }
}

function wireTake({ name, request, minToken, notes, deadline }: Take): WireTake {
  const { tokens } = request;
  return {
    name,
    state: serializeFirstGrant(request),
    tokens,
    minToken,
    notes: notes.map(serializeNote),
    until: deadline(),
  };
}

function wireSwap({
  name,
  expected,
  next,
  lastToken: last,
  failOnUnreadNotes,
  notified,
  mayBeForgotten,
  deadline,
}: Swap): WireSwap {
  const { version, notesRead } = expected;
  const state = serializeDocument(next);
  return {
    name,
    version,
    notesRead,
    failOnUnreadNotes,
    state,
    last,
    notified,
    mayBeForgotten,
    until: deadline(),
  };
}
