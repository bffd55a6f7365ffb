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
  const held = holds.map(({ owner, since, site = null, leaseMs }): HoldText => [
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
 * The holds that an introduction names. Looks at each hold once and describes none, because a process may hold 100 000 locks.
 */
export function holdsToName<H extends NameableHold>(holds: Iterable<H>): readonly H[] {
  const awaited = new LongestHeld<H>(MAX_AWAITED);
  const others = new LongestHeld<H>(MAX_LONGEST);
  for (const hold of holds) (hold.owner.isContended ? awaited : others).add(hold);
  return [...awaited.holds, ...others.holds];
}

/** The longest-held ones of all that were added, the longest-held one first. */
class LongestHeld<H extends NameableHold> {
  readonly holds: H[] = [];

  constructor(private readonly size: number) {}

  add(hold: H): void {
    const { holds, size } = this;
    const last = holds[size - 1];
    if (last && last.acquiredAt <= hold.acquiredAt) return;
    holds.splice(holds.findLastIndex(({ acquiredAt }) => acquiredAt <= hold.acquiredAt) + 1, 0, hold);
    if (holds.length > size) holds.pop();
  }
}

interface NameableHold {
  readonly acquiredAt: number;
  readonly owner: { readonly isContended: boolean };
}

/** What a client has told of itself. */
export interface ClientIntroduction {
  /** Absent where the client has told nothing. */
  readonly client?: LockClient;
  /** The start and the site of the holds that it names, by owner. What another client has written may be of any type. */
  readonly holds: ReadonlyMap<unknown, readonly unknown[]>;
}

/** @param text which any client may have written: what does not read as an introduction is ignored */
export function introductionIn(text: string | undefined): ClientIntroduction {
  const [application, host, process, since, ...holds] = listIn(text);
  const isKnown = typeof application === 'string' && typeof host === 'string';
  if (!isKnown || !Number.isSafeInteger(process) || !isMoment(since)) return { holds: new Map() };
  const client = { application, host, process: process as number, since: new Date(since) };
  // The first of several holds of one owner is held longest.
  const byOwner = new Map<unknown, readonly unknown[]>();
  for (const hold of holds as unknown[])
    if (Array.isArray(hold) && !byOwner.has(hold[0])) byOwner.set(hold[0], hold.slice(1));
  return { client, holds: byOwner };
}

/** @param timeOfDay in ms */
export function holderIn(
  { client, holds }: ClientIntroduction,
  owner: string,
  timeOfDay: number,
): IntroducedHolder {
  if (!client) return { holder: { owner } };
  const [heldSince, site, leaseMs] = holds.get(requestedId(owner)) ?? [];
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

/** The rest of a minimum hold is held under a placeholder of its owner. @returns the id with which the owner has asked */
export function requestedId(owner: string): string {
  return owner.replace(':-', ':');
}

function listIn(text: string | undefined): readonly unknown[] {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
