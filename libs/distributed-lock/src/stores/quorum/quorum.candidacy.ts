import type { Clock } from '../../time/clock.js';
import { inBackground } from '../../async/in-background.js';
import { LockStoreError } from '../../port/lock.errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  ReleaseRequest,
  ReleaseReply,
  Notification,
  Renewal,
  RenewalReply,
} from '../../port/lock-store.js';
import { Delays } from '../../time/delays.js';
import { NodeOwner } from './quorum.ballot.js';
import { noMajority } from './quorum.errors.js';
import { idAt, newTicket } from './quorum.names.js';
import type { QuorumNode } from './quorum.node.js';
import { busyReply, releaseReply, identityOf, queuedReply } from './quorum.replies.js';
import { answersOf, gather, type Outcomes, type Suffices } from './quorum.tally.js';
import { SPARE, type TokenSource } from './quorum.tokens.js';
import { NodeLeases } from './quorum.votes.js';

/** How long votes that are no majority are kept: a moment at random, so that of several that split them one wins. */
const MINORITY_MS = { least: 10, spread: 30 };
const FAILED_LOOK_MS = 50;
/** How often more tokens are reserved where they are too far apart; the first time should do. */
const LEVELLINGS = 3;

/** What the candidacies of one store share. */
export interface QuorumContext {
  readonly nodes: readonly QuorumNode[];
  readonly majority: number;
  readonly clock: Clock;
  readonly tokens: TokenSource;
  /** Longest time in ms that the slowest node takes for one command. */
  readonly nodeTimeoutMs: number;
  nextAttempt(): number;
  notify(push: Notification): void;
  /** Nobody waits for it but `close`. */
  inBackground(left: Promise<unknown>): void;
}

/**
 * One owner before all nodes: asks them together, stands in their lines, and holds while it has the votes of a majority.
 *
 * The nodes' lines do the waiting. All of them have the same order, since an owner has one ticket at all of them, so a
 * release passes the key to the same owner everywhere. Where it does not, because of what was under way, votes split:
 * then those without a majority give them back after a random moment, and keep their places.
 */
export class QuorumOwner {
  private readonly leases: NodeLeases;
  private readonly pauses: Delays;
  private asked: { readonly ask: AcquireRequest; readonly at: number } | undefined;
  private ticket = 0;
  private hasEnded = false;
  private rounds = 0;
  private lastRound: Promise<unknown> = Promise.resolve();
  private willLook = false;
  private cancelYield: (() => void) | undefined;

  constructor(
    private readonly owner: string,
    private readonly electorate: QuorumContext,
  ) {
    const { nodes, majority, clock, tokens } = electorate;
    this.pauses = new Delays(clock);
    const ballots = nodes.map(
      (node) => new NodeOwner(node, clock, () => idAt(node.store, owner, electorate.nextAttempt())),
    );
    this.leases = new NodeLeases(ballots, majority, tokens);
  }

  /** Nothing is asked, in line or held. */
  get isIdle(): boolean {
    return this.rounds === 0 && this.leases.ballots.every((ballot) => !ballot.isOpen);
  }

  // --- asking ---------------------------------------------------------------------------------------------------

  /** @throws LockStoreError when fewer than a majority answer; then it has left all nodes */
  acquire(ask: AcquireRequest): Promise<AcquireReply> {
    return this.inTurn(() => this.askUntilClear(ask));
  }

  /** One round at a time, so that each counts what the one before has left. */
  private async inTurn<T>(step: () => Promise<T>): Promise<T> {
    this.rounds += 1;
    const mine = this.lastRound.then(step);
    this.lastRound = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      this.rounds -= 1;
    }
  }

  /** Who asks once is answered "busy" if others hold the votes; if they were split, all who split them ask again. */
  private async askUntilClear(ask: AcquireRequest): Promise<AcquireReply> {
    const { clock, nodeTimeoutMs, majority } = this.electorate;
    const startedAt = clock.now();
    this.asked = { ask, at: startedAt };
    let minLastToken = 0;
    for (let levellings = 0; ;) {
      const sentAt = clock.now();
      const outcomes = await this.round({ ...ask, minLastToken: minLastToken });
      const voters = this.leases.at(clock.now());
      if (voters.length >= majority) {
        const answered = new Set(this.leases.ballots.filter((_, i) => outcomes[i]?.status === 'fulfilled'));
        const grant = this.leases.win(voters, answered, ask.tokens);
        if (grant) return grant;
        if (++levellings > LEVELLINGS) {
          inBackground(this.leaveAll(ask), () => undefined);
          throw notLevel(ask.key);
        }
        minLastToken = this.leases.tokensWanted(voters, ask.tokens);
        continue;
      }
      this.leases.drop();
      const replies = answersOf(outcomes);
      if (ask.waitMs > 0 && replies.length >= majority) {
        this.yieldSoon();
        return queuedReply(replies, this.ticket, majority);
      }
      const left = this.leaveAll(ask);
      if (replies.length < majority) throw noMajority(this.electorate.nodes, outcomes, ask.key);
      const now = clock.now();
      if (voters.length === 0 || now - startedAt >= nodeTimeoutMs) return busyReply(replies, majority);
      await Promise.all([left, this.pauses.wait(now - sentAt + moment())]);
    }
  }

  /** Asks all nodes at once, and hears them until it is clear what comes of it. */
  private async round(ask: AcquireRequest): Promise<Outcomes<AcquireReply>> {
    const { nodes, majority } = this.electorate;
    if (this.hasEnded) throw hasLeft(ask.key);
    this.ticket ||= ask.ticket || newTicket();
    const asks = { ...ask, ticket: this.ticket, tokens: ask.tokens + SPARE };
    const isHolder = this.leases.isHeld();
    const outcomes = await gather(
      this.leases.ballots.map((ballot) => this.askOne(ballot, asks)),
      (so) => {
        if (this.isAllThatAnswers(so)) return true;
        // Whether it is still the same grant is for all of them to say.
        if (isHolder) return false;
        const replies = answersOf(so);
        const granted = replies.filter(({ kind }) => kind === 'granted').length;
        return granted >= majority || replies.length - granted > nodes.length - majority;
      },
    );
    if (this.hasEnded) throw hasLeft(ask.key);
    return outcomes;
  }

  /** A majority has answered, and those that have not are late, or down: they failed the last time, too. */
  private isAllThatAnswers(outcomes: Outcomes<unknown>, isLate = false): boolean {
    const { nodes, majority } = this.electorate;
    if (answersOf(outcomes).length < majority) return false;
    return isLate || nodes.every((node, i) => outcomes[i] !== undefined || node.isDown);
  }

  private async askOne(ballot: NodeOwner, ask: AcquireRequest): Promise<AcquireReply> {
    const reply = await ballot.ask(ask);
    // Late, for what was decided without it: one more vote for what is held, or one in the way of others.
    if (ballot.lease && this.rounds === 0) {
      if (this.leases.isHeld()) this.leases.join(ballot);
      else this.yieldSoon();
    }
    return reply;
  }

  // --- giving back ----------------------------------------------------------------------------------------------

  /** Votes that are no majority are in the way of others; places are not. */
  private yieldSoon(): void {
    if (this.cancelYield || this.hasEnded) return;
    this.cancelYield = this.electorate.clock.after(moment(), () => {
      this.cancelYield = undefined;
      if (this.rounds > 0) this.yieldSoon();
      else this.yieldVotes();
    });
  }

  private yieldVotes(): void {
    const votes = this.leases.ballots.filter((ballot) => ballot.lease);
    if (!this.asked || votes.length === 0 || this.hasEnded || this.leases.isHeld()) return;
    for (const ballot of votes) this.electorate.inBackground(this.leave(ballot, this.asked.ask));
    this.electorate.notify({ kind: 'recheck', owner: this.owner, afterMs: moment() });
  }

  /** Resolves when all that answer in time have let go: who asks again sooner would meet itself. */
  private leaveAll(
    command: AcquireRequest | ReleaseRequest,
    suffices: Suffices<ReleaseReply> = (so, isLate) => isLate || this.isAllThatAnswers(so),
  ): Promise<Outcomes<ReleaseReply>> {
    const { clock, nodeTimeoutMs } = this.electorate;
    this.leases.drop();
    const left = this.leases.ballots.map((ballot) => this.leave(ballot, command));
    left.forEach((each) => this.electorate.inBackground(each));
    return gather(left, suffices, { clock, ms: nodeTimeoutMs });
  }

  private leave(ballot: NodeOwner, command: AcquireRequest | ReleaseRequest): Promise<ReleaseReply> {
    const keepUntil = 'keepUntil' in command ? command.keepUntil : undefined;
    return ballot.leave({ ...identityOf(command), ...(keepUntil && { keepUntil }) }, this.leases.lastSpent);
  }

  /** Resolves once a majority is certain to be without it; nodes that are down are told until they are, too. */
  async release(end: ReleaseRequest): Promise<ReleaseReply> {
    const { nodes, majority } = this.electorate;
    this.leases.spend(end.used);
    this.close();
    const outcomes = await this.leaveAll(end, (so, isLate) => this.isAllThatAnswers(so, isLate));
    const replies = answersOf(outcomes);
    if (replies.length < majority) throw noMajority(nodes, outcomes, end.key);
    return releaseReply(replies, nodes.length, majority);
  }

  /** Asks nobody any more, and leaves no timer. */
  close(): void {
    this.hasEnded = true;
    this.cancelYield?.();
    this.pauses.endAll();
  }

  // --- pushes ---------------------------------------------------------------------------------------------------

  /** @param push to one stay of this owner at this node; what is told to an earlier one is over with it */
  onNotification(node: QuorumNode, push: Notification & { readonly owner: string }): void {
    const ballot = this.leases.ballots.find((each) => each.node === node);
    if (!ballot?.isNamed(push.owner) || this.hasEnded) return;
    switch (push.kind) {
      case 'granted':
        return this.onNodeGranted(ballot);
      case 'contended':
        if (this.leases.isHeld()) this.electorate.notify({ ...push, owner: this.owner });
        return;
      case 'lost':
        return this.onNodeForced(ballot);
      case 'recheck':
        return this.electorate.notify({ ...push, owner: this.owner });
    }
  }

  /** The key is being passed on: all nodes are asked, which confirms this vote, too. */
  private onNodeGranted(ballot: NodeOwner): void {
    if (!this.asked || this.willLook) return;
    if (this.leases.isHeld()) return this.invite(ballot, this.asked.ask);
    this.willLook = true;
    this.inTurn(() => this.look()).catch(() =>
      this.electorate.notify({ kind: 'recheck', owner: this.owner, afterMs: FAILED_LOOK_MS }),
    );
  }

  private async look(): Promise<void> {
    this.willLook = false;
    if (!this.asked || this.hasEnded || this.leases.isHeld()) return;
    const { ask, at } = this.asked;
    const waitMs = Math.max(1, ask.waitMs - (this.electorate.clock.now() - at));
    const reply = await this.askUntilClear({ ...ask, waitMs });
    if (reply.kind === 'granted') this.electorate.notify({ ...reply, owner: this.owner });
  }

  private onNodeForced(ballot: NodeOwner): void {
    const wasHeld = this.leases.isHeld();
    ballot.lose();
    if (wasHeld && !this.leases.isHeld()) this.electorate.notify({ kind: 'lost', owner: this.owner });
  }

  // --- holding --------------------------------------------------------------------------------------------------

  /** Renewed when a majority renews; lost when a majority cannot be had any more. */
  async renew(renewal: Renewal): Promise<RenewalReply> {
    const { nodes, majority } = this.electorate;
    if (!this.asked || !this.leases.isHeld() || this.leases.token !== renewal.token) return { kind: 'lost' };
    const identity = identityOf(renewal);
    this.asked = { ...this.asked, ask: { ...this.asked.ask, ...identity } };
    const voters = this.leases.counted();
    const outcomes = await gather(
      voters.map((ballot) => ballot.renew(identity)),
      (so) => {
        const replies = answersOf(so);
        const renewed = replies.filter(({ kind }) => kind === 'renewed').length;
        return renewed >= majority || replies.length - renewed > voters.length - majority;
      },
    );
    if (!this.leases.isHeld() || this.leases.token !== renewal.token) return { kind: 'lost' };
    const renewed = answersOf(outcomes).filter(({ kind }) => kind === 'renewed').length;
    if (renewed < majority) {
      const failed = this.leases.ballots.map((ballot) => outcomes[voters.indexOf(ballot)]);
      return { kind: 'unknown', error: noMajority(nodes, failed, renewal.key) };
    }
    const counted = this.leases.counted();
    const others = this.leases.ballots.filter((ballot) => !counted.includes(ballot));
    for (const ballot of others) this.invite(ballot, this.asked.ask);
    return { kind: 'renewed', ...this.leases.standing() };
  }

  /** A node that was away, or another's for a moment, takes part again, so that the next failure can be borne, too. */
  private invite(ballot: NodeOwner, ask: AcquireRequest): void {
    this.askOne(ballot, { ...ask, waitMs: 0, tokens: 1 }).catch(() => undefined);
  }
}

function moment(): number {
  return MINORITY_MS.least + Math.random() * MINORITY_MS.spread;
}

function hasLeft(key: string): LockStoreError {
  return new LockStoreError('Its caller has left', key, 'unknown');
}

function notLevel(key: string): LockStoreError {
  const message = 'The nodes count too differently for a common fencing token';
  return new LockStoreError(message, key, 'unready');
}
