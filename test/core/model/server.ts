import { BLOCK, GONE, LEASE, SHORT, type Configuration, type Rule } from './rules.js';
import {
  JAVA,
  KEEPER,
  NOBODY,
  processOf,
  type Message,
  type Owner,
  type State,
  type Token,
} from './state.js';
import { message } from './message.js';

/** The scripts of `stores/redis/lua`, each executed as one step. */
export class Server {
  constructor(private readonly configuration: Configuration) {}

  private has(rule: Rule): boolean {
    return !this.configuration.off.has(rule);
  }

  /** It does nothing any more. */
  isTooLate({ notAfter }: Message): boolean {
    return notAfter < 0 && this.has('P1 not after');
  }

  acquire(s: State, it: Message): Message {
    const { owner, floor, belief } = it;
    const reply = (kind: Message['kind'], first = 0, last = 0) =>
      message({ kind, owner, belief, first, last });
    if (s.lock === owner) {
      s.left = LEASE;
      s.granted = NOBODY;
      this.leaveLine(s, owner);
      return reply('granted', s.first, s.last);
    }
    const isFree = s.lock === NOBODY && !s.open;
    const othersWait = s.line.some((entry) => entry.owner !== owner);
    this.standInLine(s, owner);
    if (!isFree || (othersWait && !this.has('P18 a script that finds it free grants')))
      return reply('queued');
    return this.grant(s, floor, owner) === owner ? reply('granted', s.first, s.last) : reply('queued');
  }

  renew(s: State, it: Message): Message {
    const { owner, first, last, belief } = it;
    const reply = (kind: Message['kind']) => message({ kind, owner, belief, first, last });
    if (s.lock !== owner) return reply('lost');
    if (s.first !== 0 && s.first !== first && this.has('P3 first token at renewal')) return reply('lost');
    if (s.first !== 0 && s.first !== first) s.broken ||= 'a renewal was answered for another grant';
    if (s.first === 0) [s.first, s.last] = [first, last];
    s.left = LEASE;
    s.granted = NOBODY;
    return reply('renewed');
  }

  /** @returns whether the lock is free now: then `passOn` is due */
  end(s: State, { owner, first: used, last: blockEnd, keep, flag: isCancel }: Message): boolean {
    const wasHolder = s.lock === owner;
    if (wasHolder && keep > 0) [s.lock, s.left] = [KEEPER, keep];
    else if (wasHolder && !isCancel) s.lock = NOBODY;
    const mayGiveBack = wasHolder && s.last === blockEnd;
    if (used > 0 && (mayGiveBack || !this.has('P4 give-back only by the holder of that block')))
      s.last = used;
    this.leaveLine(s, owner);
    if (s.granted === owner) s.granted = NOBODY;
    return s.lock === NOBODY;
  }

  /** Grants the free lock to the first live entry; the asker learns of it by the reply, others by a push. */
  grant(s: State, floor: Token, asker: Owner): Owner | undefined {
    this.dropUnconfirmed(s, asker);
    for (const { owner, until } of s.line) {
      const process = s.processes[processOf(owner)]!;
      if (until < 0 && this.has('P10 live until')) this.leaveLine(s, owner);
      else if (owner !== asker && process.isUp && process.isDeaf) {
        if (!this.has('P10 skip')) this.leaveLine(s, owner);
      } else {
        this.take(s, owner, floor, asker);
        if (owner !== asker) this.push(s, owner);
        return owner;
      }
    }
    return undefined;
  }

  private take(s: State, owner: Owner, floor: Token, asker: Owner): void {
    const process = s.processes[processOf(owner)]!;
    const count = process.waiting > 1 ? BLOCK : 1;
    const first = Math.max(s.last, this.has('P9 min token') ? floor : 0, s.time - 1) + 1;
    // Where the clock goes back with the data, only the floor that was presented is left of all that was seen.
    if (first <= process.seen && (!s.wasBehind || first <= floor))
      s.broken ||= 'a grant with a token that its process has seen before';
    if (s.served.includes(first) && !s.wasBehind) s.broken ||= 'a grant with a token that was used before';
    if (s.kept > 0) s.broken ||= 'a grant within a minimum hold';
    [s.first, s.last] = [first, first + count - 1];
    s.top = Math.max(s.top, s.last);
    s.lock = owner;
    s.left = owner !== asker && this.has('initial lease') ? SHORT : LEASE;
    this.leaveLine(s, owner);
  }

  private push(s: State, owner: Owner): void {
    s.granted = owner;
    const { first, last } = s;
    // A dead process and an ended owner read no notification. The server cannot tell.
    if (s.processes[processOf(owner)]!.tenure?.owner === owner)
      s.net.push(message({ kind: 'push', owner, belief: SHORT, first, last }));
  }

  private dropUnconfirmed(s: State, asker: Owner): void {
    if (s.granted === NOBODY) return;
    const client = processOf(s.granted);
    s.granted = NOBODY;
    s.line = s.line.filter(({ owner }) => owner === asker || processOf(owner) !== client);
  }

  private standInLine(s: State, owner: Owner): void {
    const entry = s.line.find((it) => it.owner === owner);
    if (entry) entry.until = GONE;
    else s.line.push({ owner, until: GONE });
  }

  private leaveLine(s: State, owner: Owner): void {
    s.line = s.line.filter((entry) => entry.owner !== owner);
  }
}

/** A lease of ours ends by itself; a Java client renews its own for as long as it is inside. */
export function leasePasses(s: State): void {
  if (s.lock === NOBODY || s.lock === JAVA) return;
  s.left -= 1;
  if (s.left === 0) s.lock = NOBODY;
}
