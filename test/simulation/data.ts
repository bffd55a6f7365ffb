import { beliefOf, type Span } from './checker/belief.js';
import type { HoldRecord } from './history/history.js';
import type { Outcome } from './replay.js';

/** A history as data, for pictures and other programs: true times in ms of virtual time. */
export interface HistoryData {
  readonly hash: string;
  readonly calls: readonly {
    readonly process: string;
    readonly keys: readonly string[];
    readonly askedAt: number;
    readonly settledAt?: number;
  }[];
  readonly holds: readonly {
    readonly process: string;
    readonly key: string;
    readonly token: number;
    readonly from: number;
    readonly endedAt: number;
    readonly end?: HoldRecord['end'];
    /** While the process ran and believed in its lock. */
    readonly beliefs: readonly Span[];
  }[];
  readonly pauses: readonly { readonly process: string; readonly kind: string; readonly span: Span }[];
  readonly faults: readonly { readonly at: number; readonly text: string }[];
  readonly brokenPromises: readonly string[];
}

export function dataOf({ history, hash, violations }: Outcome): HistoryData {
  return {
    hash,
    calls: history.calls.map(({ process, keys, askedAt, settledAt }) => ({
      process,
      keys,
      askedAt,
      ...(settledAt !== undefined && { settledAt }),
    })),
    holds: history.holds.map((hold) => ({
      process: hold.process,
      key: hold.key,
      token: hold.token,
      from: hold.from,
      endedAt: hold.endedAt ?? history.endedAt,
      ...(hold.end && { end: hold.end }),
      beliefs: beliefOf(hold, history),
    })),
    pauses: history.pauses.map(({ process, kind, from, to }) => ({ process, kind, span: { from, to } })),
    faults: history.lines.filter(({ text }) => text.startsWith('fault: ')),
    brokenPromises: violations.map(({ rule, text }) => `${rule}: ${text}`),
  };
}
