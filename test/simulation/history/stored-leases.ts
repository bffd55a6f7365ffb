import type { SimProcess } from '../kernel/process.js';
import type { Plan } from '../plan/plan.js';
import type { History } from './history.js';
import type { Held, Parts } from './stage.js';

/** Clocks differ by less than 1 %, and servers count in whole ms. */
const SLACK_MS = 2;
const DRIFT = 0.01;
/** docs/guarantees.md, time: a shorter sleep may go uncounted, and a clock that is set back meanwhile hides any sleep for so long. */
const LEAST_SLEEP_MS = 100;
const HIDDEN_MS = 1000;

/**
 * docs/guarantees.md, safety: a holder believes in its lock for no longer than the servers keep it. It is compared with what
 * the servers have, so that nobody else need ask for the key at that very moment.
 */
export class StoredLeases {
  /** By process, key and token. */
  private readonly owners = new Map<string, string>();
  private readonly mayLookOften: boolean;

  constructor(
    { faults }: Plan,
    private readonly parts: Parts,
  ) {
    // Whoever asks for the validity of a lock reads the clocks, which would notice a sleep that nobody else notices.
    this.mayLookOften = !faults.some(({ act }) => act.do === 'suspend' || act.do === 'clock');
  }

  acquired(process: SimProcess, key: string, token: number, owner: string): void {
    this.owners.set(`${process.name} ${key} ${token}`, owner);
  }

  lookOften(all: Iterable<Held>): void {
    if (this.mayLookOften) for (const held of all) this.look(held);
  }

  /** Must run in a callback of the process that holds, or right after it. */
  look({ actor: { process }, lock, records }: Held): void {
    const { backend, history, kernel } = this.parts;
    if (!backend.holdersOf || process.state !== 'running') return;
    const { validForMs } = lock;
    if (validForMs <= 0) return;
    const until = process.trueNow + validForMs * (1 - DRIFT) - SLACK_MS - this.uncountedMs(process.name);
    for (const { key, token, from, call, endedAt } of records) {
      const owner = this.owners.get(`${process.name} ${key} ${token}`);
      if (endedAt !== undefined || owner === undefined || this.isExcused(history, key, from)) continue;
      const leftMs = backend.holdersOf(key).get(owner) ?? 0;
      if (kernel.now + leftMs >= until) continue;
      const storedMs = Math.round(leftMs);
      const text = `call ${call} of ${process.name} believes in ${key} for another ${Math.round(validForMs)} ms, and the servers keep it for ${storedMs} ms`;
      history.violate('belief', text);
    }
  }

  /** What the process may have slept without knowing it. */
  private uncountedMs(process: string): number {
    const { history, kernel } = this.parts;
    const own = history.pauses.filter((it) => it.process === process);
    const sleeps = own.filter(({ kind }) => kind === 'suspend');
    if (sleeps.length === 0) return 0;
    const isHidden =
      own.some(({ kind }) => kind === 'clock') && sleeps.some(({ to }) => kernel.now < to + HIDDEN_MS);
    return isHidden ? Infinity : LEAST_SLEEP_MS;
  }

  /** Who loses a lock by force is told a message later. What servers have lost they do not keep. */
  private isExcused({ disturbances }: History, key: string, from: number): boolean {
    const { closedAfterCrashMs = 0 } = this.parts.backend;
    return disturbances.some(
      (it) =>
        (it.kind === 'force' && it.key === key && from <= it.to) ||
        it.kind === 'forget' ||
        (it.kind === 'crash server' && closedAfterCrashMs > 0),
    );
  }
}
