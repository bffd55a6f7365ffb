import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { OnceError } from '../../../libs/distributed-lock/src/once/once.error.js';
import { type OnceOutcome, OnceService } from '../../../libs/distributed-lock/src/once/once.service.js';
import type { ResultStore, StoredResult } from '../../../libs/distributed-lock/src/once/results.js';
import { isLockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { OncePlan } from '../plan/once.js';
import type { Plan } from '../plan/plan.js';
import { silentCall } from './call-records.js';
import { serviceOf } from './caller.js';
import { effectiveOptions } from './effective.js';
import { recordHold } from './hold-records.js';
import { nameOf } from './names.js';
import type { Actor, Stage } from './stage.js';
import { WorkFailed } from './work-failed.js';

const KEEP_MS = 24 * 3600 * 1000;
const SLACK_MS = 5;

/**
 * docs/recipes/once.md, while faults happen: when the result of a key is stored, no further work of that key begins, and each call gets a
 * result that some work has made. The locks of the works are holds of the history, so that other rules judge them.
 */
export class Onces {
  private readonly left = new Set<OncePlan>();
  /** By name. Its network loses nothing, and nobody loses what it stores. */
  private readonly stored = new Map<string, StoredResult & { readonly at: number }>();
  /** Results of works, by name. */
  private readonly made = new Map<string, string[]>();
  private readonly services = new Map<LockService, OnceService>();

  constructor(
    private readonly plan: Plan,
    private readonly stage: Stage,
  ) {}

  begin(): void {
    const { kernel } = this.stage.parts;
    for (const [i, once] of (this.plan.onces ?? []).entries()) {
      this.left.add(once);
      kernel.at(once.atMs, () => {
        const actor = this.stage.latest(once.process);
        if (actor.process.state === 'dead') return this.left.delete(once);
        actor.process.onEnd(() => this.left.delete(once));
        return actor.process.receive(() => void this.run(actor, once, `once ${i + 1}`));
      });
    }
  }

  get areOver(): boolean {
    return this.left.size === 0;
  }

  end(): void {
    for (const { key, process } of this.left)
      this.stage.parts.history.violate('progress', `a call of P${process} that runs ${key} once is not over`);
  }

  private async run(actor: Actor, once: OncePlan, label: string): Promise<void> {
    const { history, kernel } = this.stage.parts;
    const { key, waitMs, leaseMs } = once;
    history.say(`${actor.process.name} ${label} runs ${key}`);
    const options = {
      keepForMs: KEEP_MS,
      waitMs: waitMs === 'Infinity' ? Infinity : waitMs,
      ...(leaseMs !== undefined && { leaseMs }),
    };
    try {
      const outcome = await this.serviceOf(actor, once).outcomeOf(key, options, ({ lock }) =>
        this.work(actor, once, { lock, label }),
      );
      this.checkOutcome(actor, once, label, outcome);
    } catch (error) {
      history.say(`${actor.process.name} ${label} failed: ${String((error as Error).message)}`);
      const isExpected = isLockError(error) || error instanceof WorkFailed;
      const isBusy = error instanceof OnceError && error.code === 'ONCE_RUNNING' && waitMs !== 'Infinity';
      if (!isExpected && !isBusy) history.violate('once', `${label} ends with ${String(error)}`);
    }
    history.movedAt = kernel.now;
    this.left.delete(once);
  }

  private async work(
    actor: Actor,
    { key, service, leaseMs, workMs, fails }: OncePlan,
    { lock, label }: { readonly lock: Lock; readonly label: string },
  ): Promise<string> {
    const { stage } = this;
    const { process } = actor;
    const name = nameOf(actor, key);
    this.checkNotStored(actor, name, label);
    const { leaseMs: fixedMs } = effectiveOptions(
      serviceOf(actor, service),
      leaseMs === undefined ? {} : { leaseMs },
    );
    const asking = {
      service,
      how: 'withLock',
      keys: [lock.key],
      claims: { [lock.key]: { mode: 'exclusive' } },
      options: fixedMs === undefined ? {} : { leaseMs: fixedMs },
      work: [],
    } as const;
    const call = silentCall(actor, label, [nameOf(actor, lock.key)]);
    const held = recordHold({ stage, actor, label }, asking, lock, call, []);
    stage.onReleased(actor, lock.key, lock.fencingToken, () => stage.end(held, 'released'));
    await new Promise<void>((resolve) => process.setTimeout(workMs, resolve));
    if (stage.held.has(held)) stage.sample(held);
    if (fails) throw new WorkFailed('the work fails');
    const result = `${label} under ${lock.fencingToken}`;
    this.made.set(name, [...(this.made.get(name) ?? []), result]);
    return result;
  }

  /** The library has looked for a result since it got the lock. Its process may have stood still since then. */
  private checkNotStored({ process }: Actor, name: string, label: string): void {
    const { history, roundTripMs } = this.stage.parts;
    const { at = Infinity } = this.stored.get(name) ?? {};
    const hasPaused = history.pauses.some((it) => it.process === process.name && it.to >= at);
    if (at + roundTripMs / 2 + SLACK_MS >= process.trueNow || hasPaused) return;
    history.violate('once', `${label} of ${process.name} works on ${name}, whose result is stored`);
  }

  private checkOutcome(actor: Actor, { key }: OncePlan, label: string, outcome: OnceOutcome<string>): void {
    const { history } = this.stage.parts;
    const { value, isReplay } = outcome;
    history.say(`${actor.process.name} ${label} gets ${value}`);
    const isOwn = value.startsWith(`${label} `);
    if (this.made.get(nameOf(actor, key))?.includes(value) === true && isOwn !== isReplay) return;
    history.violate(
      'once',
      `${label} of ${actor.process.name} gets ${value}, ${isReplay ? 'stored' : 'its own'}`,
    );
  }

  private serviceOf(actor: Actor, { service }: OncePlan): OnceService {
    const locks = serviceOf(actor, service);
    const own = this.services.get(locks) ?? new OnceService(locks, { results: this.resultsOf(actor) });
    this.services.set(locks, own);
    return own;
  }

  private resultsOf({ process }: Actor): ResultStore {
    const { kernel, roundTripMs } = this.stage.parts;
    const ask = <T>(execute: () => T): Promise<T> =>
      new Promise((resolve) => {
        kernel.after(roundTripMs / 2, () => {
          const reply = execute();
          kernel.after(roundTripMs / 2, () => process.receive(() => resolve(reply)));
        });
      });
    return {
      read: (key) => ask(() => this.stored.get(key)),
      write: (key, result) =>
        ask(() => {
          if ((this.stored.get(key)?.token ?? 0) > result.token) return false;
          this.stored.set(key, { ...result, at: kernel.now });
          return true;
        }),
      remove: (key) => ask(() => void this.stored.delete(key)),
    };
  }
}
