import type { Dice } from '../../kernel/dice.js';
import type { Kernel } from '../../kernel/kernel.js';
import { SimServer } from '../../kernel/server.js';
import type { Listener, ServerEnd } from '../../network/connection.js';
import { ClientConnection, type Decided, type Serving } from './client-connection.js';
import type { Handshake } from './handshake.js';
import { Leader, type Outcome } from './leader.js';
import type { SessionLengths } from './sessions.js';
import type { Transaction, Znode } from './tree.js';
import { Watches } from './watches.js';

/** What is wrong with an ensemble that runs. Without a majority a leader answers on, and decides nothing. */
type Trouble = 'no leader' | 'no majority' | 'too much to do';

/** A ZooKeeper of one server. What it has acknowledged is on its disk. */
export class ZookeeperServer extends SimServer implements Serving {
  readonly leader: Leader;
  private readonly watches = new Watches();
  private readonly connections = new Set<ClientConnection>();
  private trouble: Trouble | undefined;
  /** What a leader without a majority was asked, in order. */
  private undecided: (() => void)[] = [];

  constructor(
    private readonly time: Kernel,
    private readonly dice: Dice,
    lengths: SessionLengths,
  ) {
    super('zookeeper', time);
    this.leader = new Leader(time, lengths, () => this.isDeciding);
    this.leader.onCommit = (transaction) => this.onCommit(transaction);
    this.onCrash.push(() => this.loseLeader());
    this.onStart.push(() => this.leader.beginAnew());
  }

  accept(end: ServerEnd): Listener {
    const connection = new ClientConnection(this, end);
    this.connections.add(connection);
    return connection;
  }

  override stop(ms: number): void {
    if (this.state !== 'running') return;
    super.stop(ms);
    const endOverdue = (): void => this.leader.sessions.endOverdue();
    // It sees that sessions are over either before or after it reads what has arrived meanwhile.
    if (this.dice.happens(0.5)) this.receive(endOverdue);
    this.time.after(ms, endOverdue);
  }

  override refuse(ms: number): void {
    if (this.trouble || this.state === 'down') return;
    const trouble = this.dice.pick(['no leader', 'no majority', 'too much to do'] as const);
    this.trouble = trouble;
    if (trouble === 'no leader') this.closeAll();
    this.time.after(ms, () => {
      if (this.trouble !== trouble) return;
      if (trouble === 'too much to do') this.trouble = undefined;
      else this.elect();
    });
  }

  /** Comes back with an older state. */
  restore(time: number): void {
    this.leader.goBackTo(time);
    this.crash(1);
  }

  // --- for its connections --------------------------------------------------------------------------------------

  get zxid(): number {
    return this.leader.tree.zxid;
  }

  get isThrottling(): boolean {
    return this.trouble === 'too much to do' && this.dice.happens(0.5);
  }

  get(path: string): Znode | undefined {
    return this.leader.tree.get(path);
  }

  watch(path: string, end: ServerEnd): void {
    this.watches.add(path, end);
  }

  begin(
    connection: ClientConnection,
    { session, timeoutMs }: Handshake,
    done: (session: bigint, timeoutMs: number) => void,
  ): void {
    const { sessions } = this.leader;
    if (this.trouble === 'no leader') return connection.close();
    if (session === 0n) {
      return this.whenDecided(() => {
        const id = this.leader.openSession(timeoutMs);
        done(id, sessions.timeoutOf(id));
      });
    }
    for (const each of this.connections) if (each !== connection && each.session === session) each.close();
    if (sessions.resume(session, timeoutMs)) done(session, sessions.timeoutOf(session));
    else done(0n, 0);
  }

  hears(session: bigint): void {
    this.leader.sessions.touch(session);
  }

  decide(session: bigint, request: Decided, done: (outcome: Outcome) => void): void {
    const { leader } = this;
    // A leader that waits for no decision answers a sync at once.
    if (request.op === 'sync' && this.undecided.length === 0) return done({ zxid: this.zxid });
    this.whenDecided(() => {
      if (request.op === 'sync') done({ zxid: this.zxid });
      else if (request.op === 'multi') done(leader.execute(session, request.operations));
      else done(leader.closeSession(session));
    });
  }

  forget(connection: ClientConnection, end: ServerEnd): void {
    this.watches.endAll(end);
    this.connections.delete(connection);
  }

  // --- leadership -----------------------------------------------------------------------------------------------

  private get isDeciding(): boolean {
    return this.state === 'running' && (!this.trouble || this.trouble === 'too much to do');
  }

  private whenDecided(work: () => void): void {
    if (this.trouble === 'no majority') this.undecided.push(work);
    else work();
  }

  private elect(): void {
    this.loseLeader();
    this.leader.beginAnew();
  }

  /** The next leader has the first of the decisions that this one was waiting for, or none of them. */
  private loseLeader(): void {
    this.trouble = undefined;
    this.closeAll();
    const undecided = this.undecided.splice(0);
    for (const work of undecided.slice(0, this.dice.int(0, undecided.length))) work();
  }

  private onCommit(transaction: Transaction): void {
    this.watches.fire(transaction);
    const { ends } = transaction;
    if (ends === undefined) return;
    for (const each of this.connections) if (each.session === ends && !each.isEnding) each.close();
  }

  private closeAll(): void {
    for (const each of this.connections) each.close();
  }
}
