import type { Dice } from '../../kernel/dice.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { SimServer } from '../../kernel/server.js';
import type { Transaction } from './tree.js';

/** A server of the ensemble, as the others reach it. Implemented by `ZookeeperServer`. */
export interface Member extends SimServer {
  readonly stay: Stay | undefined;
  /** True time until which nothing gets through between it and the others. */
  readonly cutUntil: number;
  /** How often it became reachable for the others. */
  readonly timesReached: number;
  follow(stay: Stay): void;
  /** It has lost its leader. Without one it serves nobody. */
  lookForLeader(): void;
  apply(transaction: Transaction): void;
}

/** Decides, and returns what answers the client. */
export type Decision = () => () => void;

/** The time in office of one leader. */
export class Term {
  /** Another leader may have been elected, of which this one knows nothing yet. */
  isOver = false;
  /** What the leader was asked while it had no majority, in order. */
  readonly undecided: Decision[] = [];

  constructor(readonly leader: Member) {}
}

/** The time for which a server follows one leader. What the two send each other arrives in order, while the stay lasts. */
export class Stay {
  /** The two are not connected any more. A server that is stopped does not know that yet. */
  isOver = false;
  /** The sessions that were heard since the last ping of the leader. */
  heard = new Set<bigint>();
  private readonly arrivesAt = { 'to leader': 0, 'to server': 0 };

  /** @param mostMs how long a message between servers is under way at most */
  constructor(
    private readonly kernel: Kernel,
    private readonly dice: Dice,
    private readonly mostMs: number,
    readonly term: Term,
    readonly server: Member,
  ) {}

  get isLeading(): boolean {
    return this.server === this.term.leader;
  }

  toLeader(task: () => void): void {
    this.send('to leader', this.term.leader, task);
  }

  toServer(task: () => void): void {
    this.send('to server', this.server, task);
  }

  private send(direction: 'to leader' | 'to server', receiver: Member, task: () => void): void {
    if (this.isLeading) return task();
    const { now } = this.kernel;
    const leftAt = Math.max(now, this.server.cutUntil, this.term.leader.cutUntil);
    const at = Math.max(leftAt + this.mostMs * this.dice.random() ** 4, this.arrivesAt[direction]);
    this.arrivesAt[direction] = at;
    this.kernel.at(at, () => receiver.receive(() => this.isOver || task()));
  }
}
