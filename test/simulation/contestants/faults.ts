import type { Act, CallEvent, FaultPlan, Trigger } from '../plan/plan.js';
import type { Fate, Message } from '../network/message.js';
import type { Actor, Match } from './match.js';

const FATES: Readonly<Record<string, Fate>> = {
  break: { breaks: true },
  'break after': { breaksAfter: true },
};

/** Does what the plan says to processes, servers and messages: the faults of our own simulation, without those that are no faults. */
export class ReducedFaults {
  private readonly seen = new Map<FaultPlan, number>();
  /** Of a fault that counts from an event: the process, once the event has come. */
  private readonly armed = new Map<FaultPlan, Actor>();
  private further = 0;
  private isOver = false;

  constructor(private readonly match: Match) {
    const { network, kernel, plan } = match;
    network.fateOf = (message) => this.onMessage(message);
    match.onEvent = (event, actor, key) => this.onEvent(event, actor, key);
    for (const fault of plan.faults)
      if ('atMs' in fault.when) kernel.at(fault.when.atMs, () => this.start(fault, undefined));
  }

  end(): void {
    this.isOver = true;
  }

  private onMessage({ kind, direction, process }: Message): Fate | undefined {
    const actor = this.match.actors.find((it) => it.process === process);
    let fate: Fate | undefined;
    for (const fault of this.match.plan.faults) {
      const { when } = fault;
      if (!actor || !('message' in when)) continue;
      if (when.message !== kind && when.message !== `any ${direction}`) continue;
      if (when.since ? this.armed.get(fault) !== actor : !this.match.is(actor, when.of)) continue;
      if (this.isTheOne(fault, when.nth)) fate = this.start(fault, actor, true) ?? fate;
    }
    return fate;
  }

  private onEvent(event: CallEvent, actor: Actor, key: string): void {
    const isThis = (it: { event: CallEvent; key?: string }) =>
      it.event === event && (it.key === undefined || it.key === key);
    for (const fault of this.match.plan.faults) {
      const { when } = fault;
      if ('atMs' in when || !this.match.is(actor, when.of)) continue;
      if ('event' in when && isThis(when) && this.isTheOne(fault, when.nth)) this.start(fault, actor);
      if ('message' in when && !this.armed.has(fault)) this.arm(fault, when, isThis, actor);
    }
  }

  private arm(
    fault: FaultPlan,
    { since }: Extract<Trigger, { message: string }>,
    isThis: (it: { event: CallEvent; key?: string }) => boolean,
    actor: Actor,
  ): void {
    if (!since || !isThis(since) || !this.isTheOne(fault, since.nth)) return;
    this.armed.set(fault, actor);
    this.seen.delete(fault);
  }

  private isTheOne(fault: FaultPlan, nth: number): boolean {
    const count = (this.seen.get(fault) ?? 0) + 1;
    this.seen.set(fault, count);
    return count === nth;
  }

  private start(
    { act, afterMs = 0 }: FaultPlan,
    actor: Actor | undefined,
    isMessage = false,
  ): Fate | undefined {
    if (this.isOver) return undefined;
    const fate = act.do === 'hold' ? { holdMs: act.ms } : FATES[act.do];
    if (fate) {
      if (!isMessage) return undefined;
      this.match.say(
        `fault: ${act.do} a message of ${actor?.process.name}${fate.holdMs ? ` ${fate.holdMs} ms` : ''}`,
      );
      this.match.note(act.do, 'network', fate.holdMs);
      return fate;
    }
    // In no callback of the process: between two of them.
    this.match.kernel.after(afterMs, () => {
      if (this.isOver) return;
      if ('server' in act || act.do === 'forget') this.toServer(act);
      else this.toProcess(act, actor);
    });
    return undefined;
  }

  private toServer(act: Act): void {
    const { match } = this;
    const host = match.hosts['server' in act ? act.server : 0];
    if (!host) return;
    match.say(`fault: ${act.do} ${host.name}${'ms' in act ? ` ${act.ms} ms` : ''}`);
    match.note(act.do, host.name, 'ms' in act ? Math.max(0, act.ms) : 0);
    if (act.do === 'stop server') host.stop(act.ms);
    else if (act.do === 'crash server') host.crash(act.ms);
    else if (act.do === 'server clock') host.setClock(act.ms);
    else if (act.do === 'refuse') host.refuse(act.ms);
    else if (act.do === 'server event') host.happen(act.event);
    else if (act.do === 'forget') host.forget(act.how);
  }

  private toProcess(act: Act, self: Actor | undefined): void {
    const { match } = this;
    const actor = 'who' in act ? match.find(act.who, self) : undefined;
    if (!actor || actor.process.state !== 'running') return;
    const { process } = actor;
    match.say(`fault: ${act.do} ${process.name}${'ms' in act ? ` ${act.ms} ms` : ''}`);
    // A process that is busy blocks later, which is noted then.
    if (act.do !== 'block') match.note(act.do, process.name, 'ms' in act ? Math.max(0, act.ms) : 0);
    switch (act.do) {
      case 'stop':
        return process.stop(act.ms);
      case 'suspend':
        return process.suspend(act.ms);
      case 'clock':
        return process.machine.setClock(act.ms);
      case 'rate':
        process.machine.setRate(match.kernel.now, act.rate);
        return process.schedule();
      case 'block':
        return process.receive(() => match.block(process, act.ms));
      case 'cut':
      case 'reset':
        for (const [i, host] of match.hosts.entries()) {
          if (i !== (act.only ?? i)) continue;
          if (act.do === 'cut') match.network.cut(process, host, act.ms);
          else match.network.reset(process, host);
        }
        return;
      case 'call':
        return this.callIn(actor, act.call);
      case 'crash':
        return match.crash(actor);
      case 'restart':
        match.crash(actor);
        match.kernel.after(act.ms, () => {
          if (!this.isOver) this.callIn(match.startAgain(actor), act.call);
        });
    }
  }

  private callIn(actor: Actor, asking: Extract<Act, { do: 'call' }>['call']): void {
    const label = `further ${++this.further}`;
    actor.process.receive(() => void this.match.call(actor, asking, label));
  }
}
