import type { HoldSnapshot } from '../lock.js';
import type { LockClient, LockHolder } from '../../port/lock-client.js';

/** An introduction names this many holds at most. People look for the longest-held ones. */
const MOST_HOLDS = 20;
/** The farthest moment that a `Date` can name, in ms. */
const MAX_DATE = 8.64e15;
/** Ten years. A longer age was made up, or counts from a clock that was not set. */
const MAX_HELD_MS = 3650 * 86_400_000;

/** Which process a client is, and for each hold its owner, its start, and the method or site that acquired it. */
type Text = readonly [application: string, host: string, process: number, since: number, ...HoldText[]];
type HoldText = readonly [owner: string, since: number, site: string | null, leaseMs: number];

/** At most 20 holds, each text of 100 characters: some kilobytes. */
export function introductionText(client: LockClient, holds: readonly HoldSnapshot[]): string {
  const { application, host, process, since } = client;
  const longest = holds.toSorted((a, b) => b.heldMs - a.heldMs).slice(0, MOST_HOLDS);
  const held = longest.map(({ owner, since, site = null, leaseMs }): HoldText => [
    owner,
    +since,
    site,
    leaseMs,
  ]);
  return JSON.stringify([application, host.slice(0, 100), process, +since, ...held] satisfies Text);
}

/** Who an owner is, and how long its lease is as a whole, as far as its client tells. */
export interface IntroducedHolder {
  readonly holder: LockHolder;
  readonly leaseMs?: number;
}

/**
 * @param text of the owner's client, which any client may have written: what does not read as an introduction is ignored
 * @param timeOfDay in ms
 */
export function holderIn(text: string | undefined, owner: string, timeOfDay: number): IntroducedHolder {
  const [application, host, process, since, ...holds] = listIn(text);
  if (typeof application !== 'string' || typeof host !== 'string') return { holder: { owner } };
  if (!Number.isSafeInteger(process) || !isMoment(since)) return { holder: { owner } };
  const client = { application, host, process: process as number, since: new Date(since) };
  // The rest of a minimum hold is held under a placeholder of the owner.
  const id = owner.replace(':-', ':');
  const [, heldSince, site, leaseMs] = (holds.find((it) => Array.isArray(it) && it[0] === id) ??
    []) as unknown[];
  const holder = {
    owner,
    client,
    ...(typeof site === 'string' && { site }),
    ...(isMoment(heldSince) &&
      timeOfDay - heldSince <= MAX_HELD_MS && { heldMs: Math.max(0, timeOfDay - heldSince) }),
  };
  return typeof leaseMs === 'number' ? { holder, leaseMs } : { holder };
}

function isMoment(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= MAX_DATE;
}

function listIn(text: string | undefined): readonly unknown[] {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
