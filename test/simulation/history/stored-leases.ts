import type { SimProcess } from '../kernel/process.js';
import type { Plan } from '../plan/plan.js';
import type { History, HoldRecord } from './history.js';
import { isSleepHidden, MIN_SLEEP_MS } from './hidden-sleep.js';
import { lostLeaseOf } from './loss.js';
import { sampleOf } from './sample.js';
import type { Held, Parts } from './stage.js';
import { mayBeTaken } from './taken.js';
import { mustBeTold, toldWithinMs } from './told.js';

/** Servers count in whole ms. */
const SLACK_MS = 2;

/**
 * docs/guarantees.md, safety: a holder believes in its lock for no longer than the servers keep it. It is compared with what
 * the servers have, so that nobody else need ask for the key at that very moment.
 */
export class StoredLeases {
  /** By process, key and token. */
  private readonly owners = new Map<string, string>();
  private readonly mayLookOften: boolean;
  private readonly toldWithinMs: number;

  constructor(
    plan: Plan,
    private readonly parts: Parts,
  ) {
    const { faults } = plan;
    this.toldWithinMs = toldWithinMs(plan);
    // Whoever asks for the validity of a lock reads the clocks, which would notice a sleep that nobody else notices.
    this.mayLookOften = !faults.some(({ act }) => act.do === 'suspend' || act.do === 'clock');
  }

  acquired(process: SimProcess, key: string, token: number, owner: string): void {
    this.owners.set(`${process.name} ${key} ${token}`, owner);
  }

  /** Who reads beside others of its process may have the token of another owner, so the last one counts that was granted. */
  hold({ records }: Held): void {
    for (const record of records) {
      const owner = this.owners.get(`${record.process} ${record.key} ${record.token}`);
      if (owner !== undefined) record.owner = owner;
    }
  }

  /** At what this process holds, after each of its callbacks. */
  lookOften(process: SimProcess, all: ReadonlySet<Held>): void {
    if (!this.mayLookOften) return;
    for (const held of all) if (held.actor.process === process && !held.isUnasked) this.look(held);
  }

  /** Must run in a callback of the process that holds, or right after it. */
  look({ actor: { process }, lock, records }: Held): void {
    const { backend, history, kernel } = this.parts;
    if (!backend.holdersOf || process.state !== 'running') return;
    const { validForMs, until: believedUntil } = sampleOf(process, lock);
    if (validForMs <= 0) return;
    const until = believedUntil - SLACK_MS - this.uncountedMs(process.name);
    for (const record of records) {
      const { key, call, endedAt, owner } = record;
      if (endedAt !== undefined || owner === undefined) continue;
      const leftMs = backend.holdersOf(key).get(owner) ?? 0;
      if (kernel.now + leftMs >= until || this.isExcused(history, record)) continue;
      const storedMs = Math.round(leftMs);
      const text = `call ${call} of ${process.name} believes in ${key} for another ${Math.round(validForMs)} ms, and the servers keep it for ${storedMs} ms`;
      history.violate('belief', text);
    }
  }

  /** What the process may have slept without knowing it. */
  private uncountedMs(process: string): number {
    const { history, kernel } = this.parts;
    const hasSlept = history.pauses.some((it) => it.process === process && it.kind === 'suspend');
    if (!hasSlept) return 0;
    return isSleepHidden(history, process, kernel.now) ? Infinity : MIN_SLEEP_MS;
  }

  /** Who loses a lock by force is told by a message, or by the next renewal. What servers have lost they do not keep. */
  private isExcused(history: History, hold: HoldRecord): boolean {
    const { losses } = history;
    const { now } = this.parts.kernel;
    const isTold = (since: number) => mustBeTold(history, hold, { since, now, withinMs: this.toldWithinMs });
    const isLost = losses?.some((it) => {
      const lease = lostLeaseOf(it, hold);
      return lease && now <= lease.until + SLACK_MS && !isTold(Math.max(it.to, lease.keptUntil));
    });
    return (
      isLost ||
      isShortenedByLateRenewal(history, hold) ||
      mayBeTaken(history, hold, { from: now, to: now }, this.toldWithinMs)
    );
  }
}

/**
 * docs/guarantees.md, time model: an `extend()` whose request is stuck in a socket may be executed behind a later one, if the server's
 * clock is set back so far that the deadline of the request is still to come.
 */
function isShortenedByLateRenewal(
  { disturbances }: History,
  { leaseMs, from, process }: HoldRecord,
): boolean {
  const since = disturbances.filter((it) => Math.max(it.at, it.to) >= from);
  return (
    leaseMs !== undefined &&
    since.some(({ kind }) => kind === 'server clock') &&
    since.some((it) => it.process === process)
  );
}
