import { DEADLINE, KEPT, LEASE, SHORT, type Configuration, type Rule } from './rules.js';
import { message } from './message.js';
import { freshOwner, processOf, type Message, type Process, type State, type Tenure } from './state.js';

/** One process, as `lock/owner/owner.ts`, `lock/owner/acquire-loop.ts` and `commands/release.ts` make it behave. */
export class Client {
  constructor(private readonly configuration: Configuration) {}

  private has(rule: Rule): boolean {
    return !this.configuration.off.has(rule);
  }

  // --- asking ---------------------------------------------------------------------------------------------------

  ask(s: State, p: Process): void {
    p.todo -= 1;
    p.waiting += 1;
    if (!p.tenure) this.startTenure(s, p);
  }

  private startTenure(s: State, p: Process): void {
    const owner = freshOwner(s, s.processes.indexOf(p));
    p.tenure = {
      owner,
      state: 'waiting',
      isAsking: false,
      isRenewing: false,
      isInStoreQueue: false,
      isUpToDate: false,
      mayBeKnown: false,
      isConfirmed: false,
      first: 0,
      last: 0,
      next: 0,
      belief: 0,
      late: -1,
    };
  }

  mayLook({ state, isAsking, isInStoreQueue }: Tenure): boolean {
    return state === 'waiting' && !isAsking && (!isInStoreQueue || this.has('P6 rechecks'));
  }

  look(s: State, p: Process, tenure: Tenure): void {
    tenure.isAsking = tenure.isUpToDate = true;
    const { owner } = tenure;
    s.net.push(message({ kind: 'acquire', owner, notAfter: DEADLINE, belief: LEASE, floor: p.floor }));
  }

  mayRenew({ state, isRenewing, isConfirmed, belief }: Tenure): boolean {
    return state !== 'waiting' && !isRenewing && (!isConfirmed || belief < LEASE);
  }

  renew(s: State, tenure: Tenure): void {
    tenure.isRenewing = tenure.isUpToDate = true;
    const { owner, first, last } = tenure;
    s.net.push(message({ kind: 'renew', owner, notAfter: DEADLINE, belief: LEASE, first, last }));
  }

  // --- granted --------------------------------------------------------------------------------------------------

  receive(s: State, it: Message): void {
    const p = s.processes[processOf(it.owner)]!;
    if (it.kind === 'ended') return this.onEnded(p, it);
    const { tenure } = p;
    if (tenure?.owner !== it.owner) return;
    if (it.kind === 'renewed' || it.kind === 'lost') {
      tenure.isRenewing = false;
      if (tenure.state === 'waiting') return;
      return it.kind === 'renewed' ? this.onConfirmed(s, p, tenure, it.belief) : this.onLost(s, p, tenure);
    }
    if (it.kind !== 'push') tenure.isAsking = false;
    if (it.kind === 'granted' || it.kind === 'push') return this.onGrant(s, p, tenure, it);
    if (it.kind !== 'queued' || tenure.state !== 'waiting') return;
    tenure.isInStoreQueue = tenure.mayBeKnown = true;
  }

  private onGrant(s: State, p: Process, tenure: Tenure, grant: Message): void {
    const isConfirmed = grant.kind === 'granted';
    const { first, last } = grant;
    p.floor = Math.max(p.floor, last);
    p.seen = Math.max(p.seen, first);
    if (tenure.state !== 'waiting') {
      if (first === tenure.first)
        return isConfirmed ? this.onConfirmed(s, p, tenure, grant.belief) : undefined;
      return this.has('P3 another grant means lost') ? this.lose(s, p) : undefined;
    }
    const belief = isConfirmed || this.has('P2 age of a notification') ? grant.belief : SHORT;
    Object.assign(tenure, { first, last, next: first, belief, isConfirmed, mayBeKnown: true });
    this.admit(s, p, tenure);
  }

  private admit(s: State, p: Process, tenure: Tenure): void {
    if (p.waiting === 0) this.end(s, p);
    else if (tenure.belief > 0) this.serve(s, p, tenure);
    else tenure.state = 'confirming';
  }

  private onConfirmed(s: State, p: Process, tenure: Tenure, belief: number): void {
    tenure.belief = Math.max(tenure.belief, belief);
    tenure.isConfirmed = true;
    if (tenure.state === 'confirming') this.admit(s, p, tenure);
  }

  private onLost(s: State, p: Process, tenure: Tenure): void {
    if (tenure.next > tenure.first || !this.has('P22 back to the queue')) return this.lose(s, p);
    Object.assign(tenure, { state: 'waiting', isInStoreQueue: false, first: 0, last: 0, next: 0, belief: 0 });
  }

  private serve(s: State, p: Process, tenure: Tenure): void {
    const token = tenure.next;
    if (s.served.includes(token) && !s.wasBehind) s.broken ||= 'one token given to two callers';
    s.served.push(token);
    s.top = Math.max(s.top, token);
    p.waiting -= 1;
    p.inside = token;
    p.seen = Math.max(p.seen, token);
    tenure.next += 1;
    tenure.state = 'held';
  }

  // --- given up -------------------------------------------------------------------------------------------------

  mayPassOn(p: Process, { next, last, belief, isConfirmed }: Tenure): boolean {
    if (p.waiting === 0 || (next > last && this.has('P14 no token left'))) return false;
    return !isConfirmed || belief * 2 >= LEASE;
  }

  /** The caller inside is done, and the next of this process is let in without asking. */
  passOn(s: State, p: Process, tenure: Tenure): void {
    p.inside = 0;
    if (tenure.isConfirmed) this.serve(s, p, tenure);
    else tenure.state = 'confirming';
  }

  release(s: State, p: Process): void {
    p.inside = 0;
    this.end(s, p);
  }

  /** Its lease lasts as long as the minimum hold, so that no delay of the release can shorten that. */
  mayKeep({ isConfirmed, belief }: Tenure): boolean {
    return isConfirmed && belief >= KEPT;
  }

  releaseAndKeep(s: State, p: Process): void {
    // A lock that was lost is not brought back.
    if (s.lock === p.tenure!.owner) s.kept = KEPT;
    p.inside = 0;
    this.end(s, p, { keep: KEPT });
  }

  abort(s: State, p: Process): void {
    p.waiting -= 1;
    if (p.waiting === 0 && p.tenure && p.tenure.state !== 'held') this.end(s, p, { isAbort: true });
  }

  /** The caller inside learns of it; what it does after that is refused by the token. */
  lose(s: State, p: Process): void {
    p.inside = 0;
    this.end(s, p);
  }

  private end(s: State, p: Process, { isAbort = false, keep = 0 } = {}): void {
    const { owner, next, first, last, late, isAsking, mayBeKnown } = p.tenure as Tenure;
    const asked = s.net.find((it) => it.owner === owner && it.kind === 'acquire' && !it.isLate);
    this.forget(s, (it) => it.owner === owner);
    p.tenure = undefined;
    if (isAsking || mayBeKnown || late >= 0) {
      const lastUsed = next - 1;
      const used = next > first && lastUsed < last ? lastUsed : 0;
      const isCancel = isAbort && !this.has('P5 release also frees');
      const lateNotAfter = Math.max(late, asked?.notAfter ?? (isAsking ? DEADLINE : -1));
      p.ends.push({
        owner,
        used,
        blockEnd: last,
        late: lateNotAfter,
        keep,
        isSent: false,
        isUpToDate: false,
        attempts: 0,
        isCancel,
      });
    }
    if (p.waiting > 0) this.startTenure(s, p);
  }

  sendEnd(s: State, end: Process['ends'][number]): void {
    end.isSent = end.isUpToDate = true;
    end.attempts = Math.min(end.attempts + 1, 2);
    const { owner, blockEnd, isCancel, attempts, keep } = end;
    // A repetition that is built anew does not know any more how many tokens were used.
    const isRebuilt = attempts > 1 && !this.has('P4 release built once');
    const used = isRebuilt && blockEnd > 1 ? blockEnd - 1 : end.used;
    s.net.push(message({ kind: 'end', owner, first: used, last: blockEnd, keep, flag: isCancel }));
  }

  private onEnded(p: Process, { owner, flag: isAfterAllCopies }: Message): void {
    const end = p.ends.find((it) => it.owner === owner);
    if (!end) return;
    end.isSent = false;
    if (isAfterAllCopies || !this.has('P1 repeated release')) p.ends = p.ends.filter((it) => it !== end);
  }

  /** Nothing came back in time: the request may still be executed, its reply is never read. */
  giveUp(s: State, it: Message): void {
    const { tenure } = s.processes[processOf(it.owner)]!;
    this.unanswered(s, it);
    if (
      tenure?.owner === it.owner &&
      (it.kind === 'acquire' || it.kind === 'granted' || it.kind === 'queued')
    ) {
      tenure.mayBeKnown = true;
      tenure.late = Math.max(tenure.late, DEADLINE - it.age);
    }
    if (isCommand(it)) it.isLate = true;
    else s.net = s.net.filter((other) => other !== it);
  }

  /** No answer: it is asked again. */
  unanswered(s: State, { kind, owner }: Message): void {
    const { tenure, ends } = s.processes[processOf(owner)]!;
    const end = ends.find((it) => it.owner === owner);
    if (kind === 'end' || kind === 'ended') {
      if (end) end.isSent = false;
    } else if (tenure?.owner !== owner) return;
    else if (kind === 'renew' || kind === 'renewed' || kind === 'lost') tenure.isRenewing = false;
    else tenure.isAsking = tenure.isInStoreQueue = false;
  }

  crash(s: State, p: Process): void {
    const index = s.processes.indexOf(p);
    Object.assign(p, {
      isUp: false,
      isDeaf: false,
      todo: 0,
      waiting: 0,
      inside: 0,
      tenure: undefined,
      ends: [],
    });
    Object.assign(p, { floor: 0, seen: 0 });
    this.forget(s, (it) => processOf(it.owner) === index);
  }

  /** The process reads no reply any more. The server may still execute its messages in flight. */
  private forget(s: State, isForgotten: (it: Message) => boolean): void {
    for (const it of s.net) it.isLate ||= isForgotten(it);
    s.net = s.net.filter((it) => !it.isLate || isCommand(it));
  }

  /** Something is due before the next tick, in a process that runs. */
  isBehind({ isUp, isFrozen, tenure, ends }: Process): boolean {
    if (!isUp || isFrozen) return false;
    if (ends.some((end) => !end.isSent && !end.isUpToDate)) return true;
    return tenure !== undefined && !tenure.isUpToDate && (this.mayLook(tenure) || this.mayRenew(tenure));
  }

  /** Who believes in nothing any more gives up by itself. */
  timePasses(s: State, p: Process): void {
    for (const end of p.ends) {
      end.late = Math.max(-1, end.late - 1);
      end.keep = Math.max(0, end.keep - 1);
      end.isUpToDate = false;
    }
    const { tenure } = p;
    if (!tenure) return;
    tenure.late = Math.max(-1, tenure.late - 1);
    tenure.belief = Math.max(0, tenure.belief - 1);
    tenure.isUpToDate = false;
    if (tenure.state === 'held' && tenure.belief === 0) this.lose(s, p);
  }
}

export function isCommand({ kind }: Message): boolean {
  return kind === 'acquire' || kind === 'renew' || kind === 'end';
}
