import { NAME_WITHIN_MS } from '../../../libs/distributed-lock/src/lock/core/holder-directory.js';
import type { RunningBackend } from '../backends/backend.js';
import type { SimServer } from '../kernel/server.js';
import type { Fate, Message } from '../network/message.js';
import type { Act, CallEvent, FaultPlan, Plan, Trigger } from '../plan/plan.js';
import type { Disturbance, Pause } from './history.js';
import { nameOf } from './names.js';
import { Program } from './program.js';
import { WorkFailed } from './work-failed.js';
import { checkDrained, drainOf } from './drains.js';
import type { Actor, Stage } from './stage.js';

type OnMessage = Extract<Trigger, { message: string }>;

/** Does to processes, servers and messages what the plan says. */
export class Faults {
  private readonly seen = new Map<FaultPlan, number>();
  /** Of a fault that counts from an event: the process, once the event has come. */
  private readonly armed = new Map<FaultPlan, Actor>();
  private calls = 0;
  private isOver = false;

  constructor(
    private readonly plan: Plan,
    private readonly stage: Stage,
  ) {
    const { kernel, network } = stage.parts;
    network.fateOf = (message) => this.onMessage(message);
    stage.onEvent = (event, actor, keys) => this.onEvent(event, actor, keys);
    for (const fault of plan.faults) {
      if ('atMs' in fault.when) kernel.at(fault.when.atMs, () => this.start(fault, undefined));
    }
  }

  /** No further fault begins. Those that last end by themselves. */
  end(): void {
    this.isOver = true;
  }

  /** docs/guarantees.md: when the application closes, callers that wait are refused, unless their flow holds a lock. */
  private checkDismissed(actor: Actor): void {
    const { waiting, parts } = this.stage;
    const own = [...waiting].filter(([, other]) => other === actor).map(([call]) => call);
    const idle = own.filter(({ call, keys }) => !call.includes('.') && keys.length === 1);
    // A call whose wait is over may still ask who holds the key.
    actor.process.setTimeout(NAME_WITHIN_MS + 1, () => {
      for (const call of idle)
        if (waiting.has(call)) parts.history.violate('lateness', `call ${call.call} waits on beside a drain`);
    });
  }

  private tellToClose(actor: Actor, how: 'drain' | 'close'): void {
    const { parts } = this.stage;
    const drain = drainOf(actor);
    parts.history.drains.push(drain);
    const { store, storeOptions } = this.plan;
    // A command of a quorum may ask a node twice.
    const commandTimeoutMs = (store === 'quorum' ? 2 : 1) * storeOptions.commandTimeoutMs;
    const drained = (): void =>
      checkDrained(parts.history, drain, { now: actor.process.trueNow, commandTimeoutMs });
    for (const service of actor.services) {
      if (how === 'drain') void service.drain().then(drained);
      else void service.close();
    }
    this.checkDismissed(actor);
  }

  private startLater(actor: Actor, act: Extract<Act, { do: 'restart' | 'replace' }>): void {
    const { kernel } = this.stage.parts;
    kernel.after(act.ms, () => {
      // The history is about to end.
      if (this.isOver) return;
      const next = this.stage.startAgain(actor, act.do === 'replace' ? 'another version' : undefined);
      this.calls += 1;
      const program = new Program(this.stage, next, `further ${this.calls}`);
      next.process.receive(() => void program.run({ ...act.call, service: 0 }));
    });
  }

  private onMessage(message: Message): Fate | undefined {
    const actor = this.stage.actorWith(message.process);
    if (!actor) return undefined;
    let fate: Fate | undefined;
    for (const fault of this.plan.faults) {
      const { when } = fault;
      if (!('message' in when) || !isOfKind(message, when.message)) continue;
      if (when.since ? this.armed.get(fault) !== actor : !this.stage.is(actor, when.of)) continue;
      if (this.isTheOne(fault, when.nth)) fate = this.start(fault, actor, message.kind) ?? fate;
    }
    return fate;
  }

  private onEvent(event: CallEvent, actor: Actor, keys: readonly string[]): void {
    for (const fault of this.plan.faults) {
      const { when } = fault;
      if ('message' in when) this.arm(fault, when, { event, keys }, actor);
      if (!('event' in when) || !isOf(when, { event, keys }) || !this.stage.is(actor, when.of)) continue;
      if (this.isTheOne(fault, when.nth)) this.start(fault, actor);
    }
  }

  private arm(fault: FaultPlan, { since, of }: OnMessage, happened: Happened, actor: Actor): void {
    if (!since || !isOf(since, happened) || this.armed.has(fault) || !this.stage.is(actor, of)) return;
    if (!this.isTheOne(fault, since.nth)) return;
    this.armed.set(fault, actor);
    this.seen.delete(fault);
  }

  private isTheOne(fault: FaultPlan, nth: number): boolean {
    const count = (this.seen.get(fault) ?? 0) + 1;
    this.seen.set(fault, count);
    return count === nth;
  }

  private start({ act, afterMs = 0 }: FaultPlan, actor: Actor | undefined, kind?: string): Fate | undefined {
    if (this.isOver) return undefined;
    if (
      kind !== undefined &&
      (act.do === 'lose' || act.do === 'hold' || act.do === 'break' || act.do === 'break after')
    ) {
      const { kernel, history } = this.stage.parts;
      history.say(
        `fault: ${act.do} ${kind} of ${actor?.process.name}${act.do === 'hold' ? ` for ${act.ms} ms` : ''}`,
      );
      const to = kernel.now + (act.do === 'hold' ? act.ms : this.plan.storeOptions.commandTimeoutMs);
      const process = actor && { process: actor.process.name };
      history.disturbances.push({ kind: act.do, at: kernel.now, to, ...process });
      return fateOf(act);
    }
    // In no callback of the process: between two of them.
    this.stage.parts.kernel.after(afterMs, () => {
      if (!this.isOver) this.execute(act, actor);
    });
    return undefined;
  }

  private execute(act: Act, self: Actor | undefined): void {
    const { kernel, history, backend, network } = this.stage.parts;
    const { now } = kernel;
    const disturb = (kind: string, ms: number) => history.disturbances.push({ kind, at: now, to: now + ms });
    if (act.do === 'forget') {
      backend.forget?.(act.how);
      const { closedAfterCrashMs = 0, closedAfterForgettingMs = closedAfterCrashMs } = backend;
      disturb('forget', closedAfterForgettingMs);
      return history.say(`fault: the servers come back ${act.how}`);
    }
    if (act.do === 'server event') {
      const server = backend.servers[act.server];
      if (!server) return;
      history.say(`fault: ${act.event} at ${server.name}`);
      disturb(act.event, 0);
      return server.happen(act.event);
    }
    if ('server' in act) {
      const server = backend.servers[act.server];
      if (!server) return;
      history.say(`fault: ${act.do} ${server.name} ${act.ms} ms`);
      disturb(act.do, lastsMs(act, backend));
      return onServer(server, act.do, act.ms);
    }
    if (!('who' in act)) return;
    const actor = this.stage.find(act.who, self);
    if (!actor || actor.process.state !== 'running') return;
    const { process } = actor;
    const what = 'kind' in act ? ` (${act.kind})` : 'ms' in act ? ` ${act.ms} ms` : '';
    history.say(`fault: ${act.do} ${process.name}${what}`);
    const disturbOwn = (kind: string, ms: number) =>
      history.disturbances.push({ kind, at: now, to: now + ms, process: process.name });
    const pause = (kind: Pause['kind'], ms: number) =>
      history.pauses.push({ process: process.name, kind, from: now, to: now + ms });
    switch (act.do) {
      case 'stop':
        pause('stop', act.ms);
        return process.stop(act.ms);
      case 'suspend':
        pause('suspend', act.ms);
        return process.suspend(act.ms);
      case 'clock':
        history.pauses.push({ process: process.name, kind: 'clock', from: now, to: now, setByMs: act.ms });
        return process.machine.setClock(act.ms);
      case 'rate':
        pause('rate', 0);
        process.machine.setRate(now, act.rate);
        return process.schedule();
      case 'block':
        // A process that is busy blocks later.
        return process.receive(() => {
          const from = kernel.now;
          history.pauses.push({ process: process.name, kind: 'block', from, to: from + act.ms });
          process.block(act.ms);
        });
      case 'cut':
        history.disturbances.push({
          kind: 'cut',
          at: now,
          to: now + act.ms,
          process: process.name,
          ...(serversOf(act.only, backend).length === backend.servers.length && { isWhole: true }),
        });
        for (const server of serversOf(act.only, backend)) network.cut(process, server, act.ms);
        return;
      case 'reset':
        disturbOwn('reset', 0);
        for (const server of serversOf(act.only, backend)) network.reset(process, server, act.kind);
        return;
      case 'call':
        this.calls += 1;
        return process.receive(
          () => void new Program(this.stage, actor, `further ${this.calls}`).run(act.call),
        );
      case 'crash':
        disturbOwn('crash', 0);
        return this.stage.crash(actor);
      case 'restart':
        disturbOwn('crash', 0);
        this.stage.crash(actor);
        return this.startLater(actor, act);
      case 'replace':
        disturbOwn('close', 0);
        process.receive(() => this.tellToClose(actor, 'close'));
        return this.startLater(actor, act);
      case 'resign':
      case 'stand down':
      case 'stand':
        return this.stage.onCandidateAct(act.do, actor);
      case 'abort':
        return process.receive(() => abortFirst(this.stage, actor));
      case 'drain':
      case 'close': {
        const how = act.do;
        disturbOwn(how, 0);
        return process.receive(() => this.tellToClose(actor, how));
      }
      case 'force':
        // A process that is busy asks later.
        return process.receive(() => {
          const [service] = actor.services;
          const [named] = act.isNamed ? this.ownersOf(nameOf(actor, act.key)) : [];
          if (act.isNamed && named === undefined) return;
          const at = kernel.now;
          const to = at + this.plan.watchdogTimeoutMs;
          const force: Disturbance = {
            kind: 'force',
            at,
            to,
            key: nameOf(actor, act.key),
            ...(named !== undefined && { owner: named }),
            executedBy: Infinity,
          };
          history.disturbances.push(force);
          const executed =
            named === undefined
              ? Promise.all(actor.services.map((it) => it.forceRelease(act.key)))
              : service?.forceRelease(act.key, { owner: named });
          executed?.then(
            () => (force.executedBy = kernel.now),
            // It may be executed at any later time.
            () => undefined,
          );
        });
    }
  }

  /** Of those that hold the key now, the last one first. */
  private ownersOf(key: string): readonly string[] {
    const records = [...this.stage.held].toReversed().flatMap((it) => it.records);
    return records.flatMap((it) => (it.key === key && it.owner !== undefined ? [it.owner] : []));
  }
}

function abortFirst({ waiting, aborts }: Stage, actor: Actor): void {
  const own = [...waiting].filter(([, other]) => other === actor);
  const [first] = own.flatMap(([call]) => aborts.get(call) ?? []);
  first?.controller.abort(new WorkFailed('the call was aborted'));
}

interface Happened {
  readonly event: CallEvent;
  readonly keys: readonly string[];
}

function isOf(
  when: { readonly event: CallEvent; readonly key?: string },
  { event, keys }: Happened,
): boolean {
  return when.event === event && (when.key === undefined || keys.includes(when.key));
}

function isOfKind({ kind, direction }: Message, wanted: string): boolean {
  return kind === wanted || `any ${direction}` === wanted;
}

function fateOf(act: Extract<Act, { do: 'lose' | 'hold' | 'break' | 'break after' }>): Fate {
  switch (act.do) {
    case 'lose':
      return { isLost: true };
    case 'hold':
      return { holdMs: act.ms };
    case 'break':
      return { breaks: true };
    case 'break after':
      return { breaksAfter: true };
  }
}

function serversOf(only: number | undefined, { servers }: RunningBackend): readonly SimServer[] {
  return servers.filter((_, i) => i === (only ?? i));
}

function onServer(
  server: SimServer,
  what: 'stop server' | 'crash server' | 'server clock' | 'refuse',
  ms: number,
): void {
  switch (what) {
    case 'stop server':
      return server.stop(ms);
    case 'crash server':
      return server.crash(ms);
    case 'server clock':
      return server.setClock(ms);
    case 'refuse':
      return server.refuse(ms);
  }
}

function lastsMs(
  act: Extract<Act, { server: number; ms: number }>,
  { closedAfterCrashMs = 0 }: RunningBackend,
): number {
  if (act.do === 'server clock') return 0;
  return act.do === 'crash server' ? act.ms + closedAfterCrashMs : act.ms;
}
