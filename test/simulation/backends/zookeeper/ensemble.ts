import type { Dice } from '../../kernel/dice.js';
import type { Kernel } from '../../kernel/kernel.js';
import { Decisions } from './decisions.js';
import { clientOf } from './in-use.js';
import type { SessionLengths } from './sessions.js';
import { Stay, Term, type Decision, type Member } from './stay.js';

export interface EnsembleOptions {
  readonly lengths: SessionLengths;
  /** How long a message between two servers is under way at most. */
  readonly memberLatencyMs: number;
  /** About how long servers do not notice that they have lost each other: `syncLimit` of ZooKeeper. */
  readonly syncLimitMs: number;
}

/** The servers of one ensemble: who leads, who follows, and whether a majority does. */
export class Ensemble {
  readonly servers: Member[] = [];
  readonly decisions: Decisions;
  private readonly tickMs: number;
  private term: Term | undefined;
  private isElecting = false;

  constructor(
    private readonly kernel: Kernel,
    private readonly dice: Dice,
    private readonly options: EnsembleOptions,
  ) {
    // A session has two ticks at least.
    this.tickMs = options.lengths.leastMs / 2;
    const { lengths } = options;
    const trueMs = (ms: number): number => this.term?.leader.trueMs(ms) ?? ms;
    this.decisions = new Decisions(kernel, lengths, trueMs, () => this.isDeciding, clientOf);
    this.decisions.onCommit = (transaction) => {
      for (const server of this.servers) {
        const { stay } = server;
        if (stay && !stay.isOver && stay.term === this.term) stay.toServer(() => server.apply(transaction));
      }
    };
  }

  /** The first leader is there from the beginning. */
  begin(): void {
    this.elect();
  }

  /** Within this time servers that have lost each other notice it. */
  get noticedMs(): number {
    return this.options.syncLimitMs * (0.2 + this.dice.random());
  }

  /**
   * What the leader of that term must decide: at once, when it has a majority, or never.
   *
   * @param work returns how that leader answers
   */
  decide(term: Term, work: Decision): void {
    if (term === this.term && this.isDeciding) work()();
    else term.undecided.push(work);
  }

  /** A server can be reached by the others, or cannot any more. */
  onReached(server: Member): void {
    if (!this.isReached(server)) {
      if (server.state === 'down') this.drop(server);
      else this.whenMissed(server, () => this.drop(server));
    }
    const { term } = this;
    if (term && this.isDeciding) {
      this.decisions.sessions.endOverdue();
      for (const work of term.undecided.splice(0)) work()();
    } else if (term && this.isReached(term.leader)) this.whenWithoutMajority(term);
    this.findLeader();
  }

  /** All servers come back with what they knew at that true time. */
  restore(time: number): void {
    this.decisions.goBackTo(time);
    for (const server of this.servers) server.crash(1);
  }

  // --- who is there ---------------------------------------------------------------------------------------------

  private isReached(server: Member): boolean {
    return server.state === 'running' && server.cutUntil <= this.kernel.now;
  }

  private get stays(): readonly { readonly stay: Stay; readonly server: Member }[] {
    return this.servers.flatMap((server) =>
      server.stay && !server.stay.isOver ? [{ stay: server.stay, server }] : [],
    );
  }

  /** The leader is there, and so are enough of those that follow it. */
  private get isDeciding(): boolean {
    const { term } = this;
    if (!term || !this.isReached(term.leader)) return false;
    let following = 0;
    for (const server of this.servers)
      if (server.stay?.term === term && !server.stay.isOver && this.isReached(server)) following += 1;
    return this.isMajority(following);
  }

  private isMajority(servers: number): boolean {
    return servers > this.servers.length / 2;
  }

  private whenMissed(server: Member, task: () => void): void {
    const { stay } = server;
    const reachedBefore = server.timesReached;
    this.kernel.after(this.noticedMs, () => {
      if (server.stay === stay && server.timesReached === reachedBefore && !this.isReached(server)) task();
    });
  }

  private whenWithoutMajority(term: Term): void {
    this.kernel.after(this.noticedMs, () => {
      if (this.term !== term || this.isDeciding) return;
      this.endTerm(term);
      if (this.isReached(term.leader)) term.leader.lookForLeader();
    });
  }

  // --- leaders --------------------------------------------------------------------------------------------------

  /** The others give a server up. One that is only cut off notices the same about them. */
  private drop(server: Member): void {
    const { stay } = server;
    if (!stay || stay.isOver) return;
    if (stay.isLeading) this.endTerm(stay.term);
    else stay.isOver = true;
    const look = (): void => {
      if (server.stay === stay) server.lookForLeader();
    };
    // One that is stopped notices it when it goes on.
    if (server.state === 'running') this.kernel.after(this.noticedMs, look);
    this.findLeader();
  }

  /**
   * The next leader has the first of the decisions that this one was waiting for, or none of them. This one answers none: it waits
   * for them as long as it believes that it leads.
   */
  private endTerm(term: Term): void {
    if (term.isOver) return;
    term.isOver = true;
    if (this.term === term) this.term = undefined;
    const { undecided } = term;
    for (const work of undecided.slice(0, this.dice.int(0, undecided.length))) work();
    for (const { stay, server } of this.stays) {
      if (stay.term !== term || stay.isLeading) continue;
      this.kernel.after(this.noticedMs / 4, () => {
        if (server.stay === stay) server.lookForLeader();
      });
    }
  }

  private findLeader(): void {
    if (this.term) return this.join(this.term);
    if (this.isElecting) return;
    this.isElecting = true;
    this.kernel.after(this.noticedMs / 4, () => {
      this.isElecting = false;
      if (!this.term) this.elect();
    });
  }

  private elect(): void {
    const looking = this.servers.filter((server) => this.isReached(server) && !server.stay);
    if (!this.isMajority(looking.length)) return;
    // Often the first, at which most faults are aimed.
    this.term = new Term(this.dice.happens(0.5) ? (looking[0] as Member) : this.dice.pick(looking));
    this.decisions.beginAnew();
    this.join(this.term);
    this.ping(this.term);
  }

  private join(term: Term): void {
    const { kernel, dice, options } = this;
    for (const server of this.servers) {
      if (server.stay || !this.isReached(server)) continue;
      server.follow(new Stay(kernel, dice, options.memberLatencyMs, term, server));
    }
  }

  /** Twice in each tick the leader asks which sessions were heard. */
  private ping(term: Term): void {
    if (this.term !== term) return;
    this.kernel.after(this.tickMs / 2, () => this.ping(term));
    if (term.leader.state !== 'running') return;
    for (const { stay } of this.stays) {
      stay.toServer(() => {
        const { heard } = stay;
        stay.heard = new Set();
        stay.toLeader(() => {
          if (!term.isOver) for (const session of heard) this.decisions.sessions.touch(session);
        });
      });
    }
  }
}
