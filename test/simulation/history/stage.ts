import { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { LockEvent } from '../../../libs/distributed-lock/src/lock/events/lock.events.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockLostError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { RunningBackend } from '../backends/backend.js';
import type { Dice } from '../kernel/dice.js';
import type { Kernel } from '../kernel/kernel.js';
import { Machine } from '../kernel/machine.js';
import { SimProcess } from '../kernel/process.js';
import { sourcesOf } from '../kernel/sources.js';
import type { Network } from '../network/network.js';
import type { CANDIDATE_ACTS } from '../plan/candidate.js';
import type { CallEvent, Plan, ProcessPlan, Who } from '../plan/plan.js';
import { serviceOptionsOf } from '../plan/settings.js';
import type { CallRecord, History, HoldRecord, Sample } from './history.js';
import { beginGrace, checkForced, checkGrace } from './grace.js';
import { listenBadly } from './listener.js';
import { keyOf, nameOf, prefixOf } from './names.js';
import { sampleOf } from './sample.js';
import { StoredLeases } from './stored-leases.js';

/** The library looks at a fixed lease at least every second, because its machine may have slept. */
const NOTICED_WITHIN_MS = 1100;

/** A process and its services, all of one configuration. */
export interface Actor {
  readonly process: SimProcess;
  readonly services: readonly LockService[];
}

/** Aborts a call, by a timer at the latest. */
export interface Abort {
  readonly controller: AbortController;
  cancelTimer(): void;
}

/** A lock in the hands of a call. */
export interface Held {
  readonly actor: Actor;
  readonly lock: Lock;
  /** Of the lock, as it was given to the work. To ask the lock for it once more would notice a loss. */
  readonly signal: AbortSignal;
  records: readonly HoldRecord[];
  /** Only its signal tells it of a loss while it works. */
  readonly isUnasked?: true;
  /** Of calls around it, whose locks it shares. */
  readonly shared: readonly HoldRecord[];
  /** Calls that its work has started and has not waited for yet. */
  readonly beside: Promise<void>[];
  /** Of a stream whose work has begun: resolves when that is over. */
  items?: Promise<void>;
  /** The reader of its Observable has left, so that its lock is given back while a step of its work still runs. */
  isLeft?: true;
}

export interface Parts {
  readonly kernel: Kernel;
  readonly network: Network;
  readonly backend: RunningBackend;
  readonly history: History;
  readonly dice: Dice;
  /** How long a release and the grant that follows from it are under way at most. */
  readonly handOffMs: number;
  /** Of one request at most. */
  readonly roundTripMs: number;
  /** So much later than a reply a server may bring what another client has written. */
  readonly messageLagMs: number;
  /** Locks live by the sessions of their clients. */
  readonly hasSessions: boolean;
  /** The order of owners follows the clocks of their processes, so that nothing is said of it. */
  readonly givesNoTickets: boolean;
  /** Processes are served in the order in which they asked, and one that dies while it waits is passed over at once. */
  readonly servesInTurn: boolean;
}

/** The processes of one history, and who holds and waits now. */
export class Stage {
  /** Those of the plan, and then those that were started again. */
  readonly actors: Actor[];
  readonly held = new Set<Held>();
  readonly waiting = new Map<CallRecord, Actor>();
  /** Of calls that have a signal. */
  readonly aborts = new WeakMap<CallRecord, Abort>();
  /** Told of what calls do, for the faults that are aimed at it. */
  onEvent: (event: CallEvent, actor: Actor, keys: readonly string[]) => void = () => undefined;
  /** Told of what happens to candidates, if there are some. */
  onStartedAgain: (actor: Actor, gone: Actor) => void = () => undefined;
  onCandidateAct: (act: (typeof CANDIDATE_ACTS)[number], actor: Actor) => void = () => undefined;
  /** How long each lock was valid when its caller was let in, and when that was, by process, key and token. */
  private readonly entries = new Map<string, Sample>();
  private readonly releases = new Map<string, () => void>();
  private readonly stored: StoredLeases;

  constructor(
    private readonly plan: Plan,
    readonly parts: Parts,
  ) {
    this.stored = new StoredLeases(plan, parts);
    this.actors = plan.processes.map((each, i) => this.actorOf(each, i, `P${i}`));
  }

  /** The process that a fault is aimed at, if there is one now. */
  find(who: Who, self?: Actor): Actor | undefined {
    if (typeof who === 'number') return this.actors[who];
    if (who === 'anyone') return self ?? this.actors[0];
    if (who === 'holder') return [...this.held].at(-1)?.actor;
    const holder = [...this.held].at(-1)?.actor;
    const waiting = [...this.waiting.values()];
    return waiting.find((actor) => actor !== holder) ?? waiting[0];
  }

  is(actor: Actor, who: Who): boolean {
    if (who === 'anyone') return true;
    if (who === 'holder') return [...this.held].some((held) => held.actor === actor);
    if (who === 'waiter') return [...this.waiting.values()].includes(actor);
    return this.actors[who] === actor;
  }

  /** The last one to start of those that are this process of the plan. */
  latest(process: number): Actor {
    return this.actors.findLast((it) => placeOf(it) === process) as Actor;
  }

  placeOf(actor: Actor): number {
    return placeOf(actor);
  }

  actorWith(process: SimProcess): Actor | undefined {
    return this.actors.find((actor) => actor.process === process);
  }

  /** Asks the holder how long it believes in its lock. Must run in a callback of its process. */
  sample(held: Held): void {
    const { actor, lock, records } = held;
    this.stored.look(held);
    const sample = sampleOf(actor.process, lock);
    const { monotonic } = actor.process;
    for (const record of records) {
      if (record.endedAt !== undefined) continue;
      record.samples.push(sample);
      if (sample.validForMs > 0) this.checkFixed(record, monotonic + sample.validForMs);
      checkGrace(record, actor.process, sample.validForMs, this.parts.history);
    }
  }

  /** docs/guarantees.md, fixed leases: the lease ends by itself, whatever is renewed. */
  private checkFixed(
    { call, process, key, leaseMs, fixedUntilOwn = Infinity }: HoldRecord,
    until: number,
  ): void {
    if (until <= fixedUntilOwn + 1) return;
    const text = `call ${call} of ${process} believes in ${key} for ${Math.round(until - fixedUntilOwn)} ms longer than its lease of ${leaseMs} ms`;
    this.parts.history.violate('belief', text);
  }

  /** Calls `listener` when the library says that this process has released a lock. @returns a function that stops listening */
  onReleased({ process }: Actor, key: string, token: number, listener: () => void): () => void {
    const id = `${process.name} ${key} ${token}`;
    this.releases.set(id, listener);
    return () => void this.releases.delete(id);
  }

  private noteEntry(
    process: SimProcess,
    { key, fencingToken }: { readonly key: string; readonly fencingToken: number },
    service: LockService,
  ): void {
    const hold = service.held().find((it) => it.key === key && it.fencingToken === fencingToken);
    if (hold) this.entries.set(`${process.name} ${key} ${fencingToken}`, sampleOf(process, hold));
  }

  /** What its owner knew of a lock as it let the caller in. `undefined` for a nested call, which shares a lock. */
  entryOf({ process }: Actor, key: string, token: number): Sample | undefined {
    return this.entries.get(`${process.name} ${key} ${token}`);
  }

  /** A call holds now. All that hold the same key are asked whether they still believe in their locks, as soon as they can. */
  add(held: Held): void {
    this.held.add(held);
    this.stored.hold(held);
    this.sample(held);
    const keys = held.records.map(({ key }) => key);
    this.onEvent(
      'acquired',
      held.actor,
      keys.map((key) => keyOf(held.actor, key)),
    );
    for (const other of this.held) {
      if (other === held || other.isUnasked || !other.records.some(({ key }) => keys.includes(key))) continue;
      other.actor.process.receive(() => {
        if (!this.held.has(other)) return;
        this.sample(other);
        if (this.held.has(held)) held.actor.process.receive(() => this.held.has(held) && this.sample(held));
      });
    }
  }

  end(held: Held, end: HoldRecord['end']): void {
    const now = held.actor.process.trueNow;
    if (end !== 'crashed') this.checkNoticed(held);
    for (const record of held.records) {
      if (record.endedAt !== undefined) continue;
      record.endedAt = now;
      if (end) record.end = end;
    }
    if (end !== 'lost') for (const record of keptBy(held)) record.lockedUntil = now;
    if (!this.held.delete(held)) return;
    this.onEvent(
      'ended',
      held.actor,
      held.records.map(({ key }) => keyOf(held.actor, key)),
    );
  }

  /** A holder that is told of a takeover goes on for its grace, and its signal, which has aborted, does not tell it of the loss. */
  private noteTakeover(process: SimProcess, event: LockEvent): void {
    const actor = this.actorWith(process);
    if (event.type === 'forced' && event.owner !== undefined && actor)
      checkForced(
        process,
        { holder: event.holder, owner: event.owner, key: nameOf(actor, event.key) },
        this.parts.history,
      );
    if (event.type !== 'takeover' && event.type !== 'lost') return;
    for (const held of this.held) {
      if (held.actor.process !== process) continue;
      const record = held.records.find(
        ({ key, owner }) => keyOf(held.actor, key) === event.key && owner === event.owner,
      );
      if (!record || record.endedAt !== undefined) continue;
      if (event.type === 'takeover') {
        beginGrace(record, process, event, this.parts.history);
        this.sample(held);
      } else if (isToldOfTakeover(held, record) && event.fencingToken === record.token) {
        for (const it of held.records) it.lostBy = event.error.reason;
        this.end(held, 'lost');
      }
    }
  }

  /** docs/guarantees.md, fixed leases: a timer tells the holder that its lease is over, though nothing renews it. */
  private checkNoticed({ actor: { process }, records }: Held): void {
    const { history } = this.parts;
    for (const { call, key, leaseMs, fixedUntilOwn = Infinity, endedAt } of records) {
      const lateMs = process.monotonic - fixedUntilOwn;
      if (endedAt !== undefined || lateMs <= NOTICED_WITHIN_MS) continue;
      const since = process.trueNow - 2 * lateMs;
      if (history.pauses.some((it) => it.process === process.name && it.to >= since)) continue;
      const text = `call ${call} of ${process.name} is not told for ${Math.round(lateMs)} ms that its lease of ${leaseMs} ms for ${key} is over`;
      history.violate('loss', text);
    }
  }

  crash(actor: Actor): void {
    for (const held of this.held) if (held.actor === actor) this.end(held, 'crashed');
    for (const [call, caller] of this.waiting) {
      if (caller !== actor) continue;
      call.isCrashed = true;
      call.crashedAt = actor.process.trueNow;
      this.waiting.delete(call);
    }
    for (const call of this.parts.history.calls)
      if (call.process === actor.process.name) call.isCrashed = !call.isOver;
    actor.process.crash();
  }

  /** Another process in place of one that has crashed or closes, on its machine and with its settings. */
  startAgain(gone: Actor, application?: string): Actor {
    const i = placeOf(gone);
    const actor = this.actorOf(this.plan.processes[i] as ProcessPlan, i, this.nameAfter(gone), application);
    this.actors.push(actor);
    this.onStartedAgain(actor, gone);
    return actor;
  }

  /** Of no other process: the ids of a process follow from its name, and two faults may start one again. */
  private nameAfter(gone: Actor): string {
    let name = `${gone.process.name}'`;
    while (this.actors.some(({ process }) => process.name === name)) name += "'";
    return name;
  }

  private actorOf(
    { rate, timeOfDayDrifts, isNamed, offsetMs, services, farMs = 0, listener, settings }: ProcessPlan,
    i: number,
    name: string,
    applicationName = `application ${i}`,
  ): Actor {
    const { kernel, network, backend, history, dice } = this.parts;
    const process = new SimProcess(
      name,
      kernel,
      new Machine(rate, offsetMs, timeOfDayDrifts ? 'drifting' : 'exact'),
    );
    network.moveAway(process, farMs);
    process.onThrown = (error) =>
      history.violate('errors', `${process.name} threw ${String((error as Error).stack)}`);
    process.onCallback = () => {
      if (this.held.size > 0) this.stored.lookOften(process, this.held);
    };
    const { watchdogTimeoutMs } = this.plan;
    const made = Array.from({ length: services }, (_, s) => {
      const { clock, chance } = sourcesOf(process, dice.fork(`${name} service ${s}`));
      const store = backend.storeFor(process);
      const times = { watchdogTimeoutMs, ...serviceOptionsOf(settings) };
      const application = isNamed ? applicationName : false;
      return new LockService({ store, clock, chance, application, ...times });
    });
    const prefix = prefixOf({ services: made });
    const { joinsAtMs: joinsAt = 0, startsAtMs = 0 } = settings ?? {};
    // What a plan has for it until then, it does as soon as it runs.
    if (startsAtMs > kernel.now) process.stop(startsAtMs - kernel.now);
    process.receive(() => {
      for (const service of made) {
        service.events$.subscribe((event) => {
          if (event.type === 'acquired') {
            this.stored.acquired(process, prefix + event.key, event.fencingToken, event.owner);
            this.noteEntry(process, event, service);
          }
          if (event.type === 'released')
            this.releases.get(`${process.name} ${event.key} ${event.fencingToken}`)?.();
          this.noteTakeover(process, event);
          const key = event.key === undefined ? '' : ` ${event.key}`;
          history.say(`${process.name} event ${event.type}${key}${detailOf(event)}`);
        });
        if (listener) listenBadly(service, listener, process, history);
        if (joinsAt <= kernel.now) service.open();
      }
    });
    if (joinsAt > kernel.now)
      kernel.at(joinsAt, () => process.receive(() => openUnlessClosing(made, process, history)));
    return { process, services: made };
  }
}

/** Its place in the plan, also of a process that was started again. */
function placeOf({ process }: Actor): number {
  return Number(/\d+/.exec(process.name)?.[0]);
}

function openUnlessClosing(
  services: readonly LockService[],
  { name }: SimProcess,
  { drains }: History,
): void {
  if (!drains.some((it) => it.process === name)) for (const service of services) service.open();
}

function detailOf(event: object): string {
  const { owner, error, fencingToken, by, state } = event as {
    owner?: string;
    error?: Error;
    fencingToken?: number;
    by?: string;
    state?: { isUp: boolean };
  };
  return [
    owner !== undefined && ` owner ${owner.slice(0, 4)}…${owner.slice(owner.indexOf(':'))}`,
    fencingToken !== undefined && ` token ${fencingToken}`,
    by !== undefined && ` by ${by}`,
    state !== undefined && (state.isUp ? ' up' : ' down'),
    error !== undefined && ` (${error.message})`,
  ]
    .filter((it) => it !== false)
    .join('');
}

/** A call may be let in within the grace, after the notice: its signal has aborted by then. */
function isToldOfTakeover({ signal }: Held, { toldAt }: HoldRecord): boolean {
  return toldAt !== undefined || signal.aborted;
}

/** What stays locked while the work under it runs, although its hold is over. */
function keptBy({ actor, lock, records, shared }: Held): readonly HoldRecord[] {
  const left = shared.filter(({ isLeft }) => isLeft);
  if (lock.keys.length === 1 || !lock.signal.aborted) return left;
  const { key: lost } = lock.signal.reason as LockLostError;
  return [...left, ...records.filter(({ key }) => keyOf(actor, key) !== lost)];
}
