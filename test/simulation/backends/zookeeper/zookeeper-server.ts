import type { Dice } from '../../kernel/dice.js';
import type { Kernel } from '../../kernel/kernel.js';
import { SimServer } from '../../kernel/server.js';
import type { Listener, ServerEnd } from '../../network/connection.js';
import { ClientConnection, type Decided, type Serving } from './client-connection.js';
import type { Outcome } from './decisions.js';
import type { Ensemble } from './ensemble.js';
import type { Handshake } from './handshake.js';
import { emptyParentsIn, mailboxesIn } from './in-use.js';
import type { Member, Stay } from './stay.js';
import { Tree, type Transaction, type Znode } from './tree.js';
import { Watches } from './watches.js';

/** Somebody deletes all mailboxes by hand. */
const MAILBOXES_DELETED = 'deletion of mailboxes';
/** Somebody deletes what has no children and is no lock: parents of notes, of locks, and above. */
const PARENTS_DELETED = 'deletion of empty parents';

export const ZOOKEEPER_EVENTS = [MAILBOXES_DELETED, PARENTS_DELETED];

type Begun = (session: bigint, timeoutMs: number) => void;

/** One server of an ensemble. What it has acknowledged is on its disk. */
export class ZookeeperServer extends SimServer implements Serving, Member {
  stay: Stay | undefined;
  cutUntil = 0;
  timesReached = 0;
  private tree = new Tree();
  private readonly watches = new Watches();
  private readonly connections = new Set<ClientConnection>();
  private throttlesUntil = 0;

  constructor(
    name: string,
    private readonly time: Kernel,
    private readonly dice: Dice,
    private readonly ensemble: Ensemble,
  ) {
    super(name, time);
    this.onCrash.push(() => {
      this.closeAll();
      ensemble.onReached(this);
      this.stay = undefined;
    });
    this.onStart.push(() => this.isReachedAgain());
  }

  accept(end: ServerEnd): Listener {
    const connection = new ClientConnection(this, end);
    this.connections.add(connection);
    return connection;
  }

  override stop(ms: number): void {
    if (this.state !== 'running') return;
    super.stop(ms);
    this.ensemble.onReached(this);
    // It goes on either before or after it reads what has arrived meanwhile.
    if (this.dice.happens(0.5)) this.receive(() => this.isReachedAgain());
    this.time.after(ms, () => this.state === 'running' && this.isReachedAgain());
  }

  /** Either it has too much to do, or the others do not hear it. */
  override refuse(ms: number): void {
    const until = this.time.now + ms;
    if (this.dice.happens(0.3)) {
      this.throttlesUntil = until;
      return;
    }
    this.cutUntil = Math.max(this.cutUntil, until);
    this.ensemble.onReached(this);
    this.time.at(this.cutUntil, () => this.isReachedAgain());
  }

  /** @param event one of `ZOOKEEPER_EVENTS` */
  override happen(event: string): void {
    const { stay, ensemble } = this;
    if (!stay || this.state !== 'running') return;
    const { term } = stay;
    const { decisions } = ensemble;
    const execute = (): (() => void) => {
      const { tree } = decisions;
      decisions.deleteByHand(event === MAILBOXES_DELETED ? mailboxesIn(tree) : emptyParentsIn(tree));
      return () => undefined;
    };
    stay.toLeader(() => ensemble.decide(term, execute));
  }

  // --- in the ensemble ------------------------------------------------------------------------------------------

  follow(stay: Stay): void {
    this.stay = stay;
    this.tree = this.ensemble.decisions.tree.copy();
  }

  lookForLeader(): void {
    if (this.stay) this.stay.isOver = true;
    this.stay = undefined;
    this.closeAll();
    this.ensemble.onReached(this);
  }

  apply(transaction: Transaction): void {
    this.tree.apply(transaction);
    this.watches.fire(transaction);
    const { ends } = transaction;
    if (ends === undefined) return;
    for (const each of this.connections) if (each.session === ends && !each.isEnding) each.close();
  }

  private isReachedAgain(): void {
    if (this.cutUntil > this.time.now || this.state !== 'running') return;
    this.timesReached += 1;
    const { stay } = this;
    this.ensemble.onReached(this);
    if (!stay || !(stay.isOver || stay.term.isOver)) return;
    // It was given up meanwhile, and notices that now.
    this.time.after(this.ensemble.noticedMs / 2, () => {
      if (this.stay === stay && this.state === 'running') this.lookForLeader();
    });
  }

  // --- for its connections --------------------------------------------------------------------------------------

  get zxid(): number {
    return this.tree.zxid;
  }

  get isThrottling(): boolean {
    return this.time.now < this.throttlesUntil && this.dice.happens(0.5);
  }

  get(path: string): Znode | undefined {
    return this.tree.get(path);
  }

  watch(path: string, end: ServerEnd): void {
    this.watches.add(path, end);
  }

  begin(connection: ClientConnection, { session, timeoutMs }: Handshake, done: Begun): void {
    const { stay, ensemble } = this;
    if (!stay) return connection.close();
    const { decisions } = ensemble;
    const { term } = stay;
    const reply = (id: bigint, lives: boolean): void => {
      const grantedMs = lives ? decisions.sessions.timeoutOf(id) : 0;
      stay.toServer(() => done(lives ? id : 0n, grantedMs));
    };
    if (session === 0n) {
      return stay.toLeader(() =>
        ensemble.decide(term, () => {
          const opened = decisions.openSession(timeoutMs, stay);
          return () => reply(opened, true);
        }),
      );
    }
    for (const each of this.connections) if (each !== connection && each.session === session) each.close();
    // A leader that was deposed does not know which sessions were closed since then.
    stay.toLeader(() => reply(session, term.isOver || decisions.resumeSession(session, timeoutMs, stay)));
  }

  hears(session: bigint): void {
    const { stay, ensemble } = this;
    if (!stay?.isLeading) stay?.heard.add(session);
    else if (!stay.term.isOver) ensemble.decisions.sessions.touch(session);
  }

  decide(session: bigint, request: Decided, done: (outcome: Outcome) => void): void {
    const { stay, ensemble } = this;
    if (!stay) return;
    const { decisions } = ensemble;
    const { term } = stay;
    const synced = (): void => stay.toServer(() => done({ zxid: this.zxid }));
    stay.toLeader(() => {
      // A leader that waits for no decision answers a sync at once.
      if (request.op === 'sync' && term.undecided.length === 0) return synced();
      ensemble.decide(term, () => {
        if (request.op === 'sync') return synced;
        const outcome =
          request.op === 'multi'
            ? decisions.execute(session, request.operations, stay)
            : decisions.closeSession(session);
        return () => stay.toServer(() => done(outcome));
      });
    });
  }

  forget(connection: ClientConnection, end: ServerEnd): void {
    this.watches.endAll(end);
    this.connections.delete(connection);
  }

  private closeAll(): void {
    for (const each of this.connections) each.close();
  }
}
