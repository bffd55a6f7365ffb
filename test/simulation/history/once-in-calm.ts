import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { type OnceOutcome, OnceService } from '../../../libs/distributed-lock/src/once/once.service.js';
import type { ResultStore, StoredResult } from '../../../libs/distributed-lock/src/once/results.js';
import { isLockError, LockStoreError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Dice } from '../kernel/dice.js';
import type { Actor, Stage } from './stage.js';

const KEY = 'paid once';
const KEEP_MS = 24 * 3600 * 1000;
const PATIENCE_MS = 60_000;
/** What happens to the first one that works. Its lock is taken over by a call that is not one of `once`. */
const FAULTS = ['none', 'is stopped', 'stores late', 'loses its lock', 'crashes'] as const;
/** One may crash where the next scenes still have three processes. */
const ENOUGH = 4;

interface Work {
  readonly actor: Actor;
  readonly token: number;
  readonly from: number;
  to: number;
}

interface Asked {
  readonly actor: Actor;
  readonly at: number;
  outcome?: OnceOutcome<string>;
  error?: Error;
}

/**
 * docs/recipes/once.md: processes that run one key at the same time get one result, and one of them works. If the one that works is stopped,
 * crashes or loses its lock, another works, under a larger token, and what the first one still stores does not replace its result.
 *
 * @param leaseMs of a lock under the watchdog
 */
export async function onceInCalm(stage: Stage, leaseMs: number): Promise<void> {
  const { kernel, history, dice: common } = stage.parts;
  const dice = common.fork('once');
  const isClosed = ({ process }: Actor): boolean => history.drains.some((it) => it.process === process.name);
  const actors = stage.actors.filter((it) => it.process.state === 'running' && !isClosed(it));
  if (actors.length < 2) return;
  const fault = dice.pick(actors.length < ENOUGH ? FAULTS.slice(0, -1) : FAULTS);
  const scene = new OnceScene(stage, fault === 'none' ? dice.scale(1, leaseMs) : dice.scale(50, 2 * leaseMs));
  const first = actors.map((actor) => scene.ask(actor));
  await kernel.run(kernel.now + PATIENCE_MS, () => scene.works.length > 0);
  if (scene.works.length === 0) return scene.violate('nobody works', fault);
  await kernel.run(kernel.now + dice.random() * scene.workMs);
  if (fault !== 'none') scene.disturb(fault, leaseMs, dice);
  const areOver = (calls: readonly Asked[]) => () => calls.every((it) => scene.isOver(it));
  await kernel.run(kernel.now + PATIENCE_MS + 8 * leaseMs, areOver(first));
  scene.judge(first, fault);
  const works = scene.works.length;
  const wasStored = scene.hasResult;
  const again = actors.filter(({ process }) => process.state === 'running').map((it) => scene.ask(it));
  await kernel.run(kernel.now + PATIENCE_MS, areOver(again));
  // It may be that no call has stored a result: the first one that worked has lost its lock, and the next one had too few replicas.
  if (scene.works.length > works && wasStored)
    scene.violate('its work runs again after its result is stored', fault);
  scene.judge([...first, ...again], fault);
}

class OnceScene {
  readonly works: Work[] = [];
  /** The next result is stored so much later, and its process is stopped for as long. */
  private lateMs: number | undefined;
  private readonly stored = new Map<string, StoredResult>();
  private readonly services = new Map<LockService, OnceService>();

  constructor(
    private readonly stage: Stage,
    readonly workMs: number,
  ) {}

  get hasResult(): boolean {
    return this.stored.size > 0;
  }

  ask(actor: Actor): Asked {
    const asked: Asked = { actor, at: this.stage.parts.kernel.now };
    const options = { keepForMs: KEEP_MS, waitMs: Infinity };
    actor.process.receive(() => {
      const running = this.serviceOf(actor).outcomeOf(KEY, options, ({ lock }) =>
        this.work(actor, lock.fencingToken),
      );
      running.then(
        (outcome) => (asked.outcome = outcome),
        (error: Error) => (asked.error = error),
      );
    });
    return asked;
  }

  isOver({ actor, outcome, error }: Asked): boolean {
    return outcome !== undefined || error !== undefined || actor.process.state === 'dead';
  }

  disturb(fault: Exclude<(typeof FAULTS)[number], 'none'>, leaseMs: number, dice: Dice): void {
    const [{ actor }] = this.works as [Work];
    const other = this.stage.actors.find((it) => it !== actor && it.process.state === 'running') as Actor;
    switch (fault) {
      case 'is stopped':
        return actor.process.stop(dice.int(leaseMs, 3 * leaseMs));
      case 'stores late':
        this.lateMs = 2 * (leaseMs + this.workMs) + dice.int(0, leaseMs);
        return undefined;
      case 'crashes':
        return this.stage.crash(actor);
      case 'loses its lock':
        return other.process.receive(() => {
          const [service] = other.services as readonly [LockService];
          const options = { onBusy: 'takeover', graceMs: 1, waitMs: Infinity } as const;
          void service.withLock(`once:${KEY}`, options, () => undefined).catch(() => undefined);
        });
    }
  }

  judge(calls: readonly Asked[], fault: string): void {
    const [first, ...others] = this.works;
    const mostWorks = fault === 'none' ? 1 : 2;
    if (this.works.length > mostWorks) this.violate(`its work runs ${this.works.length} times`, fault);
    if (others.some(({ token }) => token <= Number(first?.token)))
      this.violate('the next token is not larger', fault);
    const isDisturbed = ({ actor }: Asked): boolean => fault !== 'none' && actor === first?.actor;
    const undisturbed = calls.filter(
      (it) => it.actor.process.state !== 'dead' && !isDisturbed(it) && !this.hadTooFewReplicas(it),
    );
    for (const { actor, error, outcome } of undisturbed) {
      const end = error === undefined ? 'does not end' : `ends with ${String(error)}`;
      if (!outcome) this.violate(`a call of ${actor.process.name} ${end}`, fault);
    }
    const workers = undisturbed.filter(({ outcome }) => outcome?.isReplay === false);
    if (workers.length > 1) this.violate(`${workers.length} calls say that they have done its work`, fault);
    const values = new Set(undisturbed.flatMap(({ outcome }) => outcome?.value ?? []));
    if (values.size > 1) this.violate(`its calls get ${[...values].join(' and ')}`, fault);
    const hasLost = first !== undefined && others.some(({ from }) => from < first.to);
    for (const { error, outcome } of calls.filter(isDisturbed)) {
      if (hasLost && outcome?.isReplay === false)
        this.violate(
          'a call gets the result of its own work, which went on after the next work had begun',
          fault,
        );
      if (error !== undefined && !isLockError(error, 'LOCK_LOST') && !isLockError(error, 'LOCK_NOT_HELD'))
        this.violate(`the call that is disturbed ends with ${String(error)}`, fault);
    }
  }

  /** docs/guarantees.md, replicas: then a call may fail, as one that asks for a lock does. */
  private hadTooFewReplicas({ at, error }: Asked): boolean {
    const { tooFewReplicas = [] } = this.stage.parts.backend;
    return error instanceof LockStoreError && tooFewReplicas.some((then) => then >= at);
  }

  violate(what: string, fault: string): void {
    this.stage.parts.history.violate('once', `"${KEY}" (the first one that works: ${fault}): ${what}`);
  }

  private async work(actor: Actor, token: number): Promise<string> {
    const { kernel } = this.stage.parts;
    const work: Work = { actor, token, from: kernel.now, to: Infinity };
    this.works.push(work);
    this.stage.parts.history.say(`${actor.process.name} works once under ${token}`);
    await new Promise<void>((resolve) => actor.process.setTimeout(this.workMs, resolve));
    work.to = kernel.now;
    return `the result of ${actor.process.name} under ${token}`;
  }

  private serviceOf(actor: Actor): OnceService {
    const [service] = actor.services as readonly [LockService];
    const own = this.services.get(service) ?? new OnceService(service, { results: this.resultsOf(actor) });
    this.services.set(service, own);
    return own;
  }

  /** At the other end of a network that loses nothing. */
  private resultsOf({ process }: Actor): ResultStore {
    const { kernel, roundTripMs } = this.stage.parts;
    const ask = <T>(execute: () => T, lateMs = 0): Promise<T> =>
      new Promise((resolve) => {
        if (lateMs > 0) kernel.after(roundTripMs / 4, () => process.stop(lateMs));
        kernel.after(roundTripMs / 2 + lateMs, () => {
          const reply = execute();
          kernel.after(roundTripMs / 2, () => process.receive(() => resolve(reply)));
        });
      });
    return {
      read: (key) => ask(() => this.stored.get(key)),
      write: (key, result) => {
        const { lateMs } = this;
        this.lateMs = undefined;
        return ask(() => {
          if ((this.stored.get(key)?.token ?? 0) > result.token) return false;
          this.stored.set(key, result);
          return true;
        }, lateMs);
      },
      remove: (key) => ask(() => void this.stored.delete(key)),
    };
  }
}
