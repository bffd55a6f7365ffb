import { Client, isCommand } from './client.js';
import type { Model, Step, Wish } from './explorer.js';
import { message } from './message.js';
import { DEADLINE, SHORT, type Configuration } from './rules.js';
import { leasePasses, Server } from './server.js';
import {
  copyOf,
  JAVA,
  keyOf,
  NOBODY,
  normalise,
  processOf,
  type Message,
  type Process,
  type State,
} from './state.js';

/**
 * The lock protocol of one key as a system of steps, as built: a step is one script, one message read, one thing that a
 * process does, or one tick. Every step may wait for ever, but for commands: those are answered within a tick, or given up.
 */
export class Protocol implements Model<State> {
  readonly start: State;
  readonly keyOf = keyOf;
  readonly wishes: readonly Wish<State>[];
  private readonly server: Server;
  private readonly client: Client;

  constructor(private readonly configuration: Configuration) {
    this.server = new Server(configuration);
    this.client = new Client(configuration);
    this.start = startOf(configuration);
    this.wishes = [
      ...this.start.processes.map((_, i) => ({
        name: `process ${i} waits`,
        isWanted: (s: State) => s.processes[i]!.waiting > 0,
      })),
      { name: 'the Java client waits', isWanted: (s: State) => s.java === 'waiting' },
    ];
  }

  *steps(s: State): Iterable<Step<State>> {
    for (const [i, p] of s.processes.entries()) if (p.isUp) yield* this.processSteps(s, i);
    for (const i of s.net.keys()) yield* this.messageSteps(s, i);
    yield* this.javaSteps(s);
    if (!this.isSomethingDue(s)) yield next(s, 'a tick', (t) => this.tick(t));
    if (s.faults > 0) yield* this.faults(s);
  }

  violation(s: State): string | undefined {
    if (s.broken !== '') return s.broken;
    const inside = s.processes.filter((p) => p.inside > 0 && !s.wiped.includes(p.tenure!.owner)).length;
    const java = s.java === 'inside' && !s.wiped.includes(JAVA) ? 1 : 0;
    if (inside + java > 1) return 'two owners hold the lock, and both believe in it';
    if (s.lock < 0) return undefined;
    const holder = s.processes[processOf(s.lock)]!;
    const isKnown = holder.tenure?.owner === s.lock || holder.ends.some((end) => end.owner === s.lock);
    if (holder.isUp && !isKnown)
      return 'the lock is held by an owner that no process knows and none will release';
    if (!holder.isUp && s.granted === s.lock && s.left > SHORT) {
      return 'a dead process has been granted more than an initial lease';
    }
    return undefined;
  }

  private *processSteps(s: State, i: number): Iterable<Step<State>> {
    const { client } = this;
    const p = s.processes[i]!;
    const { tenure } = p;
    const act = (what: string, step: (t: State, p: Process) => void, isFault = false) =>
      next(s, `process ${i} ${what}`, (t) => step(t, t.processes[i]!), isFault);
    if (p.isFrozen) return yield act('goes on', (_, it) => (it.isFrozen = false));
    if (p.todo > 0) yield act('has one more caller', (t, it) => client.ask(t, it));
    if (tenure && client.mayLook(tenure))
      yield* this.command(s, i, 'asks', (t, it) => client.look(t, it, it.tenure!));
    if (tenure && client.mayRenew(tenure))
      yield* this.command(s, i, 'renews', (t, it) => client.renew(t, it.tenure!));
    if (tenure && p.inside > 0) {
      yield act('releases', (t, it) => client.release(t, it));
      if (this.configuration.holds && client.mayKeep(tenure))
        yield act('releases, with a minimum hold', (t, it) => client.releaseAndKeep(t, it));
      if (client.mayPassOn(p, tenure)) yield act('passes on', (t, it) => client.passOn(t, it, it.tenure!));
    }
    for (const [j, end] of p.ends.entries()) {
      if (!end.isSent) yield* this.command(s, i, 'sends its end', (t, it) => client.sendEnd(t, it.ends[j]!));
    }
    if (p.isDeaf) yield act('hears again', (_, it) => (it.isDeaf = false));
    if (s.aborts > 0 && p.waiting > 0) {
      yield act('loses a waiting caller', (t, it) => ((t.aborts -= 1), client.abort(t, it)), true);
    }
  }

  /** Executed and answered at once; or, at the price of a fault, left in the network. */
  private *command(
    s: State,
    i: number,
    what: string,
    send: (t: State, p: Process) => void,
  ): Iterable<Step<State>> {
    const name = `process ${i} ${what}`;
    const sent = copyOf(s);
    send(sent, sent.processes[i]!);
    for (const opens of this.mayOpen(sent, sent.net.length - 1)) {
      const opened = opens ? ', and foreign clients may come' : '';
      yield next(sent, name + opened, (t) => {
        const reply = this.execute(t, take(t, t.net.length - 1), opens);
        if (reply) this.client.receive(t, reply);
      });
    }
    if (s.faults === 0) return;
    yield next(
      sent,
      `${name}, slowly`,
      (t) => {
        t.faults -= 1;
        t.net.at(-1)!.isSlow = true;
      },
      true,
    );
  }

  /** Messages in flight: notifications, and messages that have become slow or late. */
  private *messageSteps(s: State, i: number): Iterable<Step<State>> {
    const it = s.net[i]!;
    const isFrozen = s.processes[processOf(it.owner)]!.isFrozen;
    if (!isCommand(it)) {
      if (!isFrozen) yield next(s, `${told(it)} arrives`, (t) => this.client.receive(t, take(t, i)));
    } else {
      const name = `${it.isLate ? 'late, ' : ''}${told(it)} is executed`;
      for (const opens of this.mayOpen(s, i)) {
        const execute = (t: State) => this.execute(t, take(t, i), opens);
        if (it.isLate) {
          yield next(s, name, execute, true);
          continue;
        }
        const slow = (t: State, reply = execute(t)) =>
          reply && t.net.push({ ...reply, isSlow: true, age: it.age });
        yield next(s, name, (t) => slow(t));
      }
    }
    if (isAwaited(it) && !isFrozen)
      yield next(s, `${told(it)} is given up`, (t) => this.client.giveUp(t, t.net[i]!));
  }

  /** When the lock is freed and a Java client waits, it may get a chance before the line does. */
  private mayOpen(s: State, i: number): readonly boolean[] {
    const { kind, owner } = s.net[i]!;
    return kind === 'end' && s.lock === owner && s.java === 'waiting' ? [false, true] : [false];
  }

  /** One script. @returns its reply, or nothing when the server found it too late */
  private execute(s: State, it: Message, opens: boolean): Message | undefined {
    if (it.kind === 'end') return this.executeEnd(s, it, opens);
    if (!this.server.isTooLate(it))
      return it.kind === 'acquire' ? this.server.acquire(s, it) : this.server.renew(s, it);
    if (!it.isLate) this.client.unanswered(s, it);
    return undefined;
  }

  private executeEnd(s: State, it: Message, opens: boolean): Message {
    const { owner } = it;
    const p = s.processes[processOf(owner)]!;
    const late = p.ends.find((end) => end.owner === owner)?.late ?? -1;
    const isFree = this.server.end(s, it);
    if (isFree && opens) s.open = true;
    else if (isFree && !s.open) this.server.grant(s, p.floor, NOBODY);
    return message({ kind: 'ended', owner, flag: late < 0 });
  }

  private *javaSteps(s: State): Iterable<Step<State>> {
    if (s.java === 'idle') yield next(s, 'the Java client waits', (t) => (t.java = 'waiting'));
    if (s.java === 'waiting' && s.lock === NOBODY) {
      yield next(s, 'the Java client takes it', (t) => {
        if (t.kept > 0) t.broken ||= 'a Java client is inside within a minimum hold';
        Object.assign(t, { java: 'inside', lock: JAVA, open: false });
      });
    }
    if (s.java === 'inside') {
      const free = (t: State) => ((t.java = 'done'), t.lock === JAVA && (t.lock = NOBODY));
      yield next(s, 'the Java client releases', free);
    }
  }

  /** A step ends within a tick, unless it is slow, late or frozen. */
  private isSomethingDue(s: State): boolean {
    if (s.processes.some((p) => this.client.isBehind(p))) return true;
    return s.net.some((it) => {
      const { isFrozen } = s.processes[processOf(it.owner)]!;
      return !isFrozen && (it.kind === 'push' ? !it.isSlow : !it.isLate && it.age >= DEADLINE);
    });
  }

  private tick(s: State): void {
    leasePasses(s);
    s.open = false;
    s.kept = Math.max(0, s.kept - 1);
    s.time = Math.max(s.time, s.top + 1);
    for (const entry of s.line) entry.until = Math.max(-1, entry.until - 1);
    for (const it of s.net) {
      it.age = it.isLate || it.kind === 'push' ? 0 : Math.min(it.age + 1, DEADLINE + 1);
      it.notAfter = Math.max(-1, it.notAfter - 1);
      it.belief = Math.max(0, it.belief - 1);
    }
    for (const p of s.processes) this.client.timePasses(s, p);
    s.net = s.net.filter((it) => !this.isHarmless(it));
  }

  /** The server does nothing on it any more. */
  private isHarmless(it: Message): boolean {
    return it.isLate && it.kind !== 'end' && this.server.isTooLate(it);
  }

  private *faults(s: State): Iterable<Step<State>> {
    const fault = (name: string, step: (t: State) => void) =>
      next(s, name, (t) => ((t.faults -= 1), step(t)), true);
    for (const [i, it] of s.net.entries()) {
      if (it.kind !== 'push') continue;
      yield fault(`${told(it)} is lost`, (t) => take(t, i));
      if (!it.isSlow) yield fault(`${told(it)} is slow`, (t) => (t.net[i]!.isSlow = true));
    }
    for (const [i, p] of s.processes.entries()) {
      if (!p.isUp) continue;
      yield fault(`process ${i} is killed`, (t) => this.client.crash(t, t.processes[i]!));
      if (!p.isFrozen) yield fault(`process ${i} freezes`, (t) => (t.processes[i]!.isFrozen = true));
      if (!p.isDeaf) yield fault(`process ${i} does not hear`, (t) => (t.processes[i]!.isDeaf = true));
    }
    if (s.lock !== NOBODY) yield fault('somebody deletes the key', wipe);
    yield fault('all data is lost', (t) => forgetAll(t, t.top + 1));
    yield fault('all data is lost, and the clock is behind', (t) => ((t.wasBehind = true), forgetAll(t, 0)));
  }
}

function startOf({ processes, callers, java, faults, aborts }: Configuration): State {
  const process = (): Process => ({
    isUp: true,
    isDeaf: false,
    isFrozen: false,
    todo: callers,
    waiting: 0,
    inside: 0,
    tenure: undefined,
    ends: [],
    floor: 0,
    seen: 0,
  });
  return normalise({
    lock: NOBODY,
    left: 0,
    first: 0,
    last: 0,
    time: 1,
    granted: NOBODY,
    open: false,
    line: [],
    processes: Array.from({ length: processes }, process),
    net: [],
    java: java ? 'idle' : 'done',
    faults,
    aborts,
    top: 0,
    served: [],
    wiped: [],
    kept: 0,
    wasBehind: false,
    broken: '',
  });
}

function next(s: State, name: string, change: (t: State) => unknown, isFault = false): Step<State> {
  const to = copyOf(s);
  change(to);
  return { name, isFault, to: normalise(to) };
}

function take(s: State, index: number): Message {
  return s.net.splice(index, 1)[0]!;
}

function isAwaited(it: Message): boolean {
  return !it.isLate && it.kind !== 'push';
}

function wipe(s: State): void {
  if (s.lock !== NOBODY && !s.wiped.includes(s.lock)) s.wiped.push(s.lock);
  s.lock = NOBODY;
  s.kept = 0;
}

function forgetAll(s: State, time: number): void {
  wipe(s);
  Object.assign(s, { first: 0, last: 0, granted: NOBODY, open: false, line: [], time });
}

function told({ kind, owner }: Message): string {
  return `${kind} of ${processOf(owner)}.${owner % 10}`;
}
