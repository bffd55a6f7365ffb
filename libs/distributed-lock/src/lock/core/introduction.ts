import type { HoldSnapshot } from '../lock.js';
import type { LockClient, LockHolder } from '../../port/lock-client.js';

/** An introduction names this many holds that others wait for, and this many others, those that are held longest. */
export const MAX_AWAITED = 200;
const MAX_LONGEST = 20;
/** The farthest moment that a `Date` can name, in ms. */
const MAX_DATE = 8.64e15;
/** Ten years. A longer age was made up, or counts from a clock that was not set. */
const MAX_HELD_MS = 3650 * 86_400_000;

/** Which process a client is, and for each hold its owner, its start, and the method or site that acquired it. */
type Text = readonly [application: string, host: string, process: number, since: number, ...HoldText[]];
type HoldText = readonly [owner: string, since: number, site: string | null, leaseMs: number];

/** For 20 holds at most some kilobytes, for each further one that others wait for at most 160 bytes. */
export function introductionText(client: LockClient, holds: readonly HoldSnapshot[]): string {
  const { application, host, process, since } = client;
  const texts = holds.map((it): HoldText => [it.owner, +it.since, it.site ?? null, it.leaseMs]);
  return JSON.stringify([application, host.slice(0, 100), process, +since, ...texts] satisfies Text);
}

/** Who an owner is, and how long its lease is as a whole, as far as its client tells. */
export interface IntroducedHolder {
  readonly holder: LockHolder;
  readonly leaseMs?: number | undefined;
}

/** What a client has told of itself. Any client may have written it, so each part of it may be of any type. */
export interface ClientIntroduction {
  readonly client: LockClient;
  /** The owner, the start, the site and the lease of each hold that it names. */
  readonly holds: readonly unknown[];
}

/** @returns `undefined` for a text that no client of this package has written */
export function introductionIn(text: string | undefined): ClientIntroduction | undefined {
  const [application, host, process, since, ...holds] = listIn(text);
  const isKnown = typeof application === 'string' && typeof host === 'string';
  if (!isKnown || !Number.isSafeInteger(process) || !isMoment(since)) return undefined;
  return { client: { application, host, process: process as number, since: new Date(since) }, holds };
}

/** @param timeOfDay in ms */
export function holderIn(
  { client, holds }: ClientIntroduction,
  owner: string,
  timeOfDay: number,
): IntroducedHolder {
  // The first of several holds of one owner is held longest.
  const hold = holds.find((it) => Array.isArray(it) && it[0] === requestedId(owner)) ?? [];
  const [, since, site, leaseMs] = hold as readonly unknown[];
  const heldMs = isMoment(since) ? Math.max(0, timeOfDay - since) : Infinity;
  const holder = {
    owner,
    client,
    ...(typeof site === 'string' && { site }),
    ...(heldMs <= MAX_HELD_MS && { heldMs }),
  };
  return { holder, leaseMs: typeof leaseMs === 'number' ? leaseMs : undefined };
}

/** The rest of a minimum hold is held under a placeholder of its owner. @returns the id with which the owner has asked */
export function requestedId(owner: string): string {
  return owner.replace(':-', ':');
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

interface NameableHold {
  readonly acquiredAt: number;
  readonly owner: { readonly contention: { readonly isContended: boolean } };
}

/**
 * The holds that an introduction names. Looks at each hold once and describes none, because a process may hold 100 000 locks.
 */
export function holdsToName<H extends NameableHold>(holds: Iterable<H>): readonly H[] {
  const awaited: H[] = [];
  const others: H[] = [];
  for (const hold of holds) {
    if (hold.owner.contention.isContended) keepLongest(awaited, hold, MAX_AWAITED);
    else keepLongest(others, hold, MAX_LONGEST);
  }
  return [...awaited, ...others];
}

/** Adds `hold` to the longest-held ones, `max` at most, the longest-held one first. */
function keepLongest<H extends NameableHold>(longest: H[], hold: H, max: number): void {
  const i = longest.findLastIndex(({ acquiredAt }) => acquiredAt <= hold.acquiredAt) + 1;
  longest.splice(i, 0, hold);
  if (longest.length > max) longest.pop();
}
