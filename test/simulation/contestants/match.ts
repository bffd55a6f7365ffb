import { RedisHost, type HostOptions } from '../backends/redis/redis-host.js';
import type { Kernel } from '../kernel/kernel.js';
import { LuaEngine } from '../redis/lua/engine.js';
import { Machine } from '../kernel/machine.js';
import { SimProcess } from '../kernel/process.js';
import { Network } from '../network/network.js';
import type { Asking, CallEvent, Plan, ProcessPlan, Step, Who } from '../plan/plan.js';
import type { Contestant, Grant, RunLocked, Seat } from './contestant.js';

/** Asked again so long after the library has given up, until the call's own wait is over. */
const AGAIN_MS = 100;

/** One for all histories, so that each script is compiled once. It knows all of Lua. */
const interpreter = new LuaEngine();

/** A call that was let in. All times are true times, in ms. */
export interface HoldRecord {
  readonly call: string;
  readonly actor: Actor;
  readonly key: string;
  readonly askedAt: number;
  readonly grant: Grant;
  endedAt?: number;
  /** What its library told it, and until when that holds. */
  readonly samples: { readonly at: number; readonly until: number }[];
}

export interface CallRecord {
  readonly call: string;
  readonly actor: Actor;
  readonly key: string;
  readonly askedAt: number;
  state: 'waits' | 'holds' | 'served' | 'refused' | 'crashed';
}

/** What happened to a process, or to a server. */
export interface Incident {
  readonly kind: string;
  readonly at: number;
  readonly to: number;
  /** Its name. */
  readonly of: string;
}

export interface Actor {
  readonly process: SimProcess;
  readonly place: number;
  run: RunLocked | undefined;
}

/** One history: the processes of a plan, each with its own library, and what they do. */
export class Match {
  readonly actors: Actor[];
  readonly hosts: readonly RedisHost[];
  readonly calls: CallRecord[] = [];
  readonly holds: HoldRecord[] = [];
  readonly incidents: Incident[] = [];
  readonly errors: string[] = [];
  readonly lines: { readonly at: number; readonly text: string }[] = [];
  readonly network: Network;
  onEvent: (event: CallEvent, actor: Actor, key: string) => void = () => undefined;

  constructor(
    readonly plan: Plan,
    readonly kernel: Kernel,
    private readonly contestant: Contestant,
    private readonly open: (seat: Seat) => RunLocked,
  ) {
    this.network = new Network(kernel, plan.latency);
    this.hosts = Array.from({ length: contestant.servers }, (_, i) => this.hostAt(i));
    this.actors = plan.processes.map((each, place) => this.actorOf(each, place, `P${place}`));
  }

  say(text: string): void {
    this.kernel.note(text);
    this.lines.push({ at: this.kernel.now, text });
  }

  /** The last one to start in this place of the plan. */
  latest(place: number): Actor {
    return this.actors.findLast((it) => it.place === place) as Actor;
  }

  startAgain({ place, process }: Actor): Actor {
    const actor = this.actorOf(this.plan.processes[place] as ProcessPlan, place, `${process.name}'`);
    this.actors.push(actor);
    return actor;
  }

  crash(actor: Actor): void {
    for (const hold of this.living()) if (hold.actor === actor) hold.endedAt = this.kernel.now;
    for (const call of this.calls)
      if (call.actor === actor && (call.state === 'waits' || call.state === 'holds')) call.state = 'crashed';
    actor.process.crash();
  }

  living(): readonly HoldRecord[] {
    return this.holds.filter(({ endedAt }) => endedAt === undefined);
  }

  /** The process at which a fault is aimed, if there is one now. */
  find(who: Who, self: Actor | undefined): Actor | undefined {
    if (typeof who === 'number') return this.latest(who);
    if (who === 'anyone') return self ?? this.actors[0];
    if (who === 'holder') return this.living().at(-1)?.actor;
    return this.calls.find(({ state }) => state === 'waits')?.actor;
  }

  is(actor: Actor, who: Who): boolean {
    if (who === 'anyone') return true;
    if (typeof who === 'number') return actor.place === who;
    if (who === 'holder') return this.living().some((it) => it.actor === actor);
    return this.calls.some((it) => it.actor === actor && it.state === 'waits');
  }

  /** Runs in a callback of the process. */
  async call(actor: Actor, { keys, options, work }: Asking, label: string): Promise<CallRecord> {
    const { process, run } = actor;
    const [key = ''] = keys;
    const call: CallRecord = { call: label, actor, key, askedAt: process.trueNow, state: 'waits' };
    this.calls.push(call);
    this.say(`${process.name} call ${label} asks for ${key}`);
    this.onEvent('asked', actor, key);
    const giveUpAt = process.monotonic + Number(options.waitMs ?? 0);
    while (call.state === 'waits') {
      try {
        await (run as RunLocked)(key, (grant) => this.hold(call, grant, work));
        this.say(`${process.name} call ${label} is served`);
      } catch (error) {
        this.say(`${process.name} call ${label}: ${(error as Error).message}`);
        if (call.state === 'waits' && process.monotonic >= giveUpAt) call.state = 'refused';
        else if (call.state === 'waits') await sleep(process, AGAIN_MS);
      }
      if (isIn(call)) call.state = 'served';
    }
    return call;
  }

  private async hold(call: CallRecord, grant: Grant, work: readonly Step[]): Promise<void> {
    const { actor, key } = call;
    const hold: HoldRecord = { ...call, grant, samples: [] };
    call.state = 'holds';
    this.holds.push(hold);
    this.sample(hold);
    this.say(`${actor.process.name} call ${call.call} has ${key}`);
    this.onEvent('acquired', actor, key);
    try {
      for (const step of work) if (grant.validForMs() > 0) await this.do(step, hold);
    } finally {
      this.sample(hold);
      hold.endedAt = actor.process.trueNow;
      this.say(`${actor.process.name} call ${call.call} leaves ${key}`);
      this.onEvent('ended', actor, key);
    }
  }

  private async do(step: Step, { actor: { process }, grant }: HoldRecord): Promise<void> {
    if (step.do === 'sleep') return sleep(process, step.ms);
    if (step.do === 'extend') return void (await grant.extend?.());
    if (step.do !== 'block') return;
    this.block(process, step.ms);
  }

  /** Something lasts so long from now on. */
  note(kind: string, of: string, ms = 0, at = this.kernel.now): void {
    this.incidents.push({ kind, of, at, to: at + ms });
  }

  /** The callback that runs takes so long. */
  block(process: SimProcess, ms: number): void {
    this.note('block', process.name, ms, process.trueNow);
    process.block(ms);
  }

  private sample(hold: HoldRecord): void {
    const { process } = hold.actor;
    const last = hold.samples.at(-1);
    // A callback that has blocked was ahead.
    const at = Math.max(process.trueNow, last?.at ?? 0);
    const validForMs = hold.grant.validForMs();
    const until = validForMs === Infinity ? Infinity : at + validForMs / 1.005;
    if (until === Infinity ? last?.until !== Infinity : true) hold.samples.push({ at, until });
  }

  private hostAt(i: number): RedisHost {
    const { plan, kernel, network, contestant } = this;
    const { clientTimeout: _, commandTimeoutMs: _c, ...options } = plan.storeOptions;
    const disturb = () => undefined;
    const world = { kernel, network, dice: kernel.dice.fork(`store ${i}`), disturb };
    const isOurs = !contestant.looksInTimers;
    const host = new RedisHost(`redis-${i}`, world, {
      ...(options as unknown as HostOptions),
      ...(isOurs && contestant.servers === 3 && { restartGuardMs: 2 * plan.watchdogTimeoutMs }),
      ...(!isOurs && { engine: interpreter }),
    });
    host.rate = plan.serverRates?.[i] ?? 1;
    return host;
  }

  private actorOf({ rate, offsetMs, timeOfDayDrifts }: ProcessPlan, place: number, name: string): Actor {
    const { kernel, plan, hosts } = this;
    const process = new SimProcess(
      name,
      kernel,
      new Machine(rate, offsetMs, timeOfDayDrifts ? 'drifting' : 'exact'),
    );
    const actor: Actor = { process, place, run: undefined };
    process.onThrown = (error) => this.errors.push(`${name} threw ${String(error)}`);
    process.onCallback = () => {
      // What a library tells depends on the clock of its process.
      kernel.current = process;
      for (const hold of this.living()) if (hold.actor === actor) this.sample(hold);
      kernel.current = undefined;
    };
    const { commandTimeoutMs, clientTimeout } = plan.storeOptions;
    process.receive(() => {
      actor.run = this.open({
        process,
        hosts,
        dice: kernel.dice.fork(name),
        leaseMs: plan.watchdogTimeoutMs,
        commandTimeoutMs: clientTimeout ? commandTimeoutMs : undefined,
      });
    });
    return actor;
  }
}

/** Its work has changed the state meanwhile. */
function isIn({ state }: CallRecord): boolean {
  return state === 'holds';
}

function sleep(process: SimProcess, ms: number): Promise<void> {
  return new Promise((resolve) => void process.setTimeout(ms, resolve));
}
