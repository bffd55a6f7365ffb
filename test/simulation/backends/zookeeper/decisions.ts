import { CODE } from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { ExpiredSession } from '../backend.js';
import { Draft, Refusal, type Result } from './draft.js';
import type { Operation } from './requests.js';
import { Sessions, type SessionLengths } from './sessions.js';
import { Tree, type Transaction } from './tree.js';

/** What became of a request that is decided about. */
export interface Outcome {
  readonly zxid: number;
  readonly code?: number;
  readonly results?: readonly Result[];
  /** The operation of a multi that has failed, and why. */
  readonly failed?: { readonly index: number; readonly code: number };
}

/** The upper half of a zxid is the number of its leader. */
const EPOCH = 2 ** 32;

/** What the ensemble has decided: the order of all transactions, and which sessions live. No change of leaders loses any of it. */
export class Decisions {
  readonly sessions: Sessions;
  /** Told of each transaction. */
  onCommit: (transaction: Transaction) => void = () => undefined;
  readonly expired: ExpiredSession[] = [];
  tree = new Tree();
  private journal: Transaction[] = [];
  private epoch = 0;
  private zxid = 0;
  /** The server through which a session writes. */
  private readonly owners = new Map<bigint, object>();

  constructor(
    private readonly kernel: Kernel,
    lengths: SessionLengths,
    trueMs: (ms: number) => number,
    mayEnd: () => boolean,
    /** @returns the client whose mailbox this is */
    clientOf: (path: string) => string | undefined,
  ) {
    this.sessions = new Sessions(kernel, lengths, trueMs, mayEnd, (id) => {
      const owned = this.tree.ownedBy(id).map((path) => clientOf(path) ?? []);
      for (const client of owned.flat()) this.expired.push({ client, at: kernel.now });
      this.closeSession(id);
    });
  }

  /** @param owner the server, while it follows one leader */
  openSession(askedMs: number, owner: object): bigint {
    this.commit(new Map());
    const id = this.sessions.open(askedMs);
    this.owners.set(id, owner);
    return id;
  }

  /** The client has another connection. @returns whether the session lives */
  resumeSession(session: bigint, askedMs: number, owner: object): boolean {
    const lives = this.sessions.resume(session, askedMs);
    if (lives) this.owners.set(session, owner);
    return lives;
  }

  closeSession(session: bigint): Outcome {
    if (!this.sessions.has(session)) return this.refused(CODE.sessionExpired);
    this.sessions.close(session);
    const draft = new Draft(this.tree, this.zxid + 1, session);
    for (const path of this.tree.ownedBy(session)) draft.execute({ op: 'delete', path, version: -1 });
    return this.commit(draft.changes, session);
  }

  /** All of the operations or none. */
  execute(session: bigint, operations: readonly Operation[], owner: object): Outcome {
    if (!this.sessions.has(session)) return this.refused(CODE.sessionExpired);
    if ((this.owners.get(session) ?? owner) !== owner) return this.refused(CODE.sessionMoved);
    this.owners.set(session, owner);
    const draft = new Draft(this.tree, this.zxid + 1, session);
    const results: Result[] = [];
    try {
      for (const operation of operations) results.push(draft.execute(operation));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { zxid } = this.commit(new Map());
      return { zxid, failed: { index: results.length, code: error.code } };
    }
    return { ...this.commit(draft.changes), results };
  }

  /** Somebody deletes znodes by hand, of whatever session. */
  deleteByHand(paths: readonly string[]): void {
    const draft = new Draft(this.tree, this.zxid + 1, 0n);
    for (const path of paths) draft.execute({ op: 'delete', path, version: -1 });
    this.commit(draft.changes);
  }

  /** A new leader is elected, which counts its transactions and all sessions anew. */
  beginAnew(): void {
    this.epoch += 1;
    this.zxid = this.epoch * EPOCH;
    this.tree.zxid = this.zxid;
    this.owners.clear();
    this.sessions.beginAnew();
  }

  /** Restored from what was saved at that true time. */
  goBackTo(time: number): void {
    this.journal = this.journal.filter(({ at }) => at < time);
    this.tree = new Tree();
    for (const transaction of this.journal) this.tree.apply(transaction);
    this.zxid = this.tree.zxid;
    this.epoch = Math.floor(this.zxid / EPOCH);
    this.sessions.goBackTo(time);
  }

  /** A request that is refused has a transaction of its own, which changes nothing. */
  private refused(code: number): Outcome {
    return { ...this.commit(new Map()), code };
  }

  private commit(changes: Transaction['changes'], ends?: bigint): Outcome {
    this.zxid += 1;
    const { zxid } = this;
    const transaction = { zxid, at: this.kernel.now, changes, ...(ends !== undefined && { ends }) };
    this.journal.push(transaction);
    this.tree.apply(transaction);
    this.onCommit(transaction);
    return { zxid };
  }
}
