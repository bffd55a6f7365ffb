import { isExclusive, type Claim } from '../../../libs/distributed-lock/src/port/claim.js';
import type { Grant } from '../../../libs/distributed-lock/src/port/lock-store.js';

export type Tokens = Pick<Grant, 'token' | 'lastToken'>;

interface Held {
  readonly name: string;
  claim: Claim;
  tokens: Tokens;
  /** Its lease is over, and nobody has needed its room since. */
  hasLapsed: boolean;
}

interface Place {
  readonly name: string;
  readonly claim: Claim;
  ticket: number;
}

const NONE: Tokens = { token: 0, lastToken: 0 };

/**
 * The state that one key of a store should have: its holders and their claims, its queue in order, and whose turn it is.
 *
 * Who is granted is told by name, in order; the tokens are the store's to choose.
 */
export class FamilyModel {
  holders: Held[] = [];
  line: Place[] = [];
  /** A pushed grant of one that holds alone, not yet confirmed by it. */
  private unconfirmed: string | undefined;

  /** @param isRemote behind a network: then whoever lets a pushed grant run out is out of reach, and loses its places */
  constructor(private readonly isRemote: boolean) {}

  holderOf(name: string): Held | undefined {
    return this.holders.find((holder) => holder.name === name);
  }

  /** @param ticket 0 is behind all that are there; the store's answer says which one that is */
  ask(name: string, claim: Claim, waits: boolean, ticket: number): readonly string[] | 'holds already' {
    const mine = this.holderOf(name);
    // An old copy of what it asked before it stepped down: a network carries it, and its answer is not heard.
    const isOld = this.isRemote && mine?.claim.kind !== claim.kind;
    if (mine && !isOld) {
      this.confirm(mine);
      this.leaveLine(name);
      return 'holds already';
    }
    const hasRoom = this.mayEnter(claim);
    if (waits) this.enterLine(name, claim, ticket);
    if (!hasRoom) return [];
    const { granted, isBlocked } = this.grantLine(name);
    if (waits || isBlocked || !this.mayEnter(claim)) return granted;
    return [...granted, this.enter(name, claim)];
  }

  /** A renewal that was sent before its owner downgraded neither undoes the downgrade nor is a loss. */
  renew(name: string, claim: Claim, isUnderItsGrant: boolean): readonly string[] | 'lost' {
    const mine = this.holderOf(name);
    if (!mine || !isUnderItsGrant) return 'lost';
    const stepsDown = isExclusive(mine.claim) && claim.kind === 'shared';
    if (stepsDown) mine.claim = claim;
    this.confirm(mine);
    return stepsDown ? this.grantLine('').granted : [];
  }

  end(name: string): { readonly wasHolder: boolean; readonly granted: readonly string[] } {
    const wasHolder = this.holderOf(name) !== undefined;
    this.holders = this.holders.filter((holder) => holder.name !== name);
    this.leaveLine(name);
    if (this.unconfirmed === name) this.unconfirmed = undefined;
    if (wasHolder && this.isShared) this.sweep();
    return { wasHolder, granted: this.grantLine('').granted };
  }

  force(): { readonly wasHeld: boolean; readonly granted: readonly string[] } {
    const wasHeld = this.holders.length > 0;
    this.holders = [];
    this.unconfirmed = undefined;
    return { wasHeld, granted: this.grantLine('').granted };
  }

  /** Its lease is over. The ticket of one that holds alone is free by that, as is that of the last reader. */
  lapse(name: string): void {
    for (const holder of this.holders) if (holder.name === name) holder.hasLapsed = true;
    const isCounted = this.holders[0]?.claim.kind === 'permits';
    if (!isCounted && this.holders.every(({ hasLapsed }) => hasLapsed)) this.holders = [];
  }

  /** Drops the holders whose leases have expired, as an acquire does that needs their room. */
  sweep(): void {
    this.holders = this.holders.filter(({ hasLapsed }) => !hasLapsed);
  }

  /** Grants the queue, as an acquire does for a key whose lease has expired. */
  serve(): readonly string[] {
    return this.grantLine('').granted;
  }

  /** Takes over the ticket that the store gave to a queued owner. */
  setPlace(name: string, ticket: number): void {
    const mine = this.line.find((entry) => entry.name === name);
    if (mine) mine.ticket = ticket;
  }

  private get isShared(): boolean {
    return this.holders.length > 0 && this.holders.every(({ claim }) => claim.kind === 'shared');
  }

  private mayEnter(claim: Claim): boolean {
    if (claim.kind === 'permits') {
      this.sweep();
      const taken = this.holders.reduce((sum, holder) => sum + weightOf(holder.claim), 0);
      return taken + claim.weight <= claim.permits;
    }
    if (this.isShared && claim.kind === 'shared') return true;
    if (this.isShared) this.sweep();
    return this.holders.length === 0;
  }

  /** The first waiters of the queue that may be granted, up to one that may not: no waiter is overtaken. */
  private grantLine(asker: string): { readonly granted: string[]; readonly isBlocked: boolean } {
    this.dropUnreachable(asker);
    const granted: string[] = [];
    for (let [first] = this.line; first; [first] = this.line) {
      const { name, claim } = first;
      if (!this.mayEnter(claim)) return { granted, isBlocked: true };
      granted.push(this.enter(name, claim));
      if (!isExclusive(claim)) continue;
      if (name !== asker) this.unconfirmed = name;
      return { granted, isBlocked: true };
    }
    return { granted, isBlocked: false };
  }

  private enter(name: string, claim: Claim): string {
    this.leaveLine(name);
    this.holders.push({ name, claim, tokens: NONE, hasLapsed: false });
    return name;
  }

  private confirm(holder: Held): void {
    holder.hasLapsed = false;
    this.unconfirmed = undefined;
  }

  /** An owner that is queued already keeps its ticket. */
  private enterLine(name: string, claim: Claim, ticket: number): void {
    if (this.line.some((entry) => entry.name === name)) return;
    this.line.push({ name, claim, ticket: ticket || Infinity });
    this.line.sort((a, b) => a.ticket - b.ticket);
  }

  private leaveLine(name: string): void {
    this.line = this.line.filter((entry) => entry.name !== name);
  }

  private dropUnreachable(asker: string): void {
    if (this.unconfirmed === undefined || this.holders.length > 0) return;
    const gone = clientOf(this.unconfirmed);
    this.unconfirmed = undefined;
    if (!this.isRemote) return;
    this.line = this.line.filter(({ name }) => name === asker || clientOf(name) !== gone);
  }
}

export function weightOf(claim: Claim): number {
  return claim.kind === 'permits' ? claim.weight : 0;
}

function clientOf(owner: string): string {
  return owner.slice(0, owner.indexOf(':'));
}
