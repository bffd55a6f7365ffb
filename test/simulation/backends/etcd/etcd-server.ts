import type {
  Calls,
  TxnReply,
  EtcdKeyValue,
  WatchRequest,
} from '../../../../libs/distributed-lock/src/etcd/grpc.js';
import { parseSessionDocument } from '../../../../libs/distributed-lock/src/session/json.js';
import type { Dice } from '../../kernel/dice.js';
import type { Kernel } from '../../kernel/kernel.js';
import { SimServer } from '../../kernel/server.js';
import type { Listener, ServerEnd } from '../../network/connection.js';
import type { ExpiredSession } from '../backend.js';
import { Compaction } from './compaction.js';
import { Keyspace, nameOf, type Stored } from './keyspace.js';
import { kindOf } from './kinds.js';
import { Leases } from './leases.js';
import { Watches } from './watches.js';
import { Refusal, type WireReply, type WireRequest } from './wire.js';

/** What etcd says while it is in trouble, and whether the request may be executed all the same. */
const TROUBLES = [
  { code: 8, details: 'etcdserver: too many requests', isExecuted: false },
  { code: 14, details: 'etcdserver: no leader', isExecuted: false },
  { code: 14, details: 'etcdserver: request timed out', isExecuted: false },
  { code: 14, details: 'etcdserver: request timed out', isExecuted: true },
] as const;

/** Why etcd ends watches. */
const ENDS_OF_WATCHES = [
  'rpc error: code = Unavailable desc = etcdserver: no leader',
  'rpc error: code = PermissionDenied desc = etcdserver: permission denied',
] as const;

/** A leader that was cut off from the others steps down after two timeouts of an election. */
const MAX_DEPOSED_MS = 2000;
/** What a leader that was deposed answers by itself. */
const WITHOUT_MAJORITY = ['LeaseKeepAlive', 'Status', 'Authenticate', 'cancel'];

/** The others have elected another leader, or soon will, and this one knows nothing of it. */
interface Deposed {
  readonly since: number;
  /** As it was then. */
  readonly header: NonNullable<TxnReply['header']>;
  /** What waits for a majority. */
  readonly waiting: (() => void)[];
}

/**
 * An etcd, as all clients reach it by one of its members. What it has acknowledged is on the disks of a majority. Its clock is
 * monotonic, so that no step of time ends a lease.
 */
export class EtcdServer extends SimServer {
  readonly expired: ExpiredSession[] = [];
  /** Of one document that was restored: how many hold, wait, or have left a note. */
  mostEntries = 0;
  private readonly keyspace: Keyspace;
  private readonly leases: Leases;
  private readonly watches: Watches;
  private readonly compaction: Compaction;
  private raftTerm = 2;
  /** In trouble it cannot keep leases alive. Often that is all that it cannot. */
  private isTroubleOfAll = false;
  private deposed: Deposed | undefined;

  /** @param watchLagMs how late a watch brings what was written @param compactEveryMs 0: never */
  constructor(
    private readonly time: Kernel,
    private readonly dice: Dice,
    watchLagMs: number,
    compactEveryMs = 0,
  ) {
    super('etcd', time);
    const clock = (): number => time.now;
    this.leases = new Leases(
      time,
      (ms) => this.trueMs(ms),
      () => this.state === 'running',
      (id) => {
        this.keyspace.deleteUnder(id);
        this.bring();
      },
      (id) => {
        const client = this.clientOf(id);
        if (client !== undefined) this.expired.push({ client, at: time.now });
      },
    );
    this.keyspace = new Keyspace(clock, (lease) => this.leases.has(lease));
    this.compaction = new Compaction(clock, this.keyspace, compactEveryMs);
    this.watches = new Watches(time, this.keyspace, watchLagMs, this.compaction, () => this.header);
    this.onStart.push(() => {
      this.deposed = undefined;
      this.beginTerm();
    });
  }

  accept(end: ServerEnd): Listener {
    return {
      onMessage: (payload) => {
        const request = payload as WireRequest;
        if (this.deposed && !WITHOUT_MAJORITY.includes(request.name))
          this.deposed.waiting.push(() => this.onRequest(end, request));
        else this.onRequest(end, request);
      },
      onClose: () => this.watches.endAll(end),
    };
  }

  private onRequest(end: ServerEnd, request: WireRequest): void {
    if (!this.deposed) this.compaction.compactIfDue();
    if (request.name === 'cancel') return this.watches.end(end, request.id);
    if (request.name === 'Watch') return this.watch(end, request.id, request.request);
    const send = (reply: WireReply): void => end.send(reply, `re:${kindOf(request)}`);
    try {
      send({ id: request.id, reply: this.replyTo(request) });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      send({ id: request.id, error: { code: error.code, details: error.details } });
    }
    this.bring();
  }

  override stop(ms: number): void {
    if (this.state !== 'running') return;
    super.stop(ms);
    // What has arrived meanwhile is read before it is seen that leases are over.
    this.time.after(ms, () => this.state === 'running' && this.leases.endOverdue());
  }

  override refuse(ms: number): void {
    if (this.dice.happens(0.3)) return this.depose(Math.min(ms, MAX_DEPOSED_MS));
    super.refuse(ms);
    this.isTroubleOfAll = this.dice.happens(0.5);
    if (this.dice.happens(0.5)) this.watches.cancelAll(this.dice.pick(ENDS_OF_WATCHES));
  }

  /** It is cut off from the others while it leads, and answers keep-alives that the next leader never hears of. */
  private depose(ms: number): void {
    if (this.deposed || this.state !== 'running') return;
    const deposed: Deposed = { since: this.time.now, header: this.header, waiting: [] };
    this.deposed = deposed;
    this.time.after(ms * this.dice.random(), () => this.deposed === deposed && this.beginTerm());
    const rejoin = (): void => {
      if (this.deposed !== deposed) return;
      this.deposed = undefined;
      for (const execute of deposed.waiting) execute();
      this.bring();
    };
    this.time.after(ms, () => this.receive(rejoin));
  }

  private beginTerm(): void {
    this.raftTerm += 1;
    this.leases.beginAnew();
  }

  private bring(): void {
    if (!this.deposed) this.watches.bring();
  }

  /** Comes back with an older state. */
  restore(time: number): void {
    this.keyspace.goBackTo(time);
    this.compaction.restore();
    this.leases.goBackTo(time);
    this.mostEntries = Math.max(0, ...this.below('l').map((stored) => this.entriesIn(stored)));
    this.crash(1);
  }

  /** By owner. A lock lasts as long as the lease of its session. */
  holdersOf(name: string): ReadonlyMap<string, number> {
    const [stored] = this.keyspace.in({ key: Buffer.from(`nest-lock/l/${name}`) });
    if (!stored) return new Map();
    const { holders } = parseSessionDocument(stored.value.toString(), stored.modRevision, name).document;
    const leftOf = (session: string | undefined): number => {
      const [found] = this.keyspace.in({ key: Buffer.from(`nest-lock/s/${session}`) });
      return found ? this.leases.leftOf(found.lease) : 0;
    };
    return new Map(holders.map(({ owner, session }) => [owner, leftOf(session)]));
  }

  /** Locks that sessions which are alive hold or wait for. */
  inUse(): readonly string[] {
    const isAlive = (session: string | undefined): boolean =>
      this.keyspace.in({ key: Buffer.from(`nest-lock/s/${session}`) }).length > 0;
    const locks = this.below('l').flatMap(({ key, value, modRevision }) => {
      const { holders, queue } = parseSessionDocument(value.toString(), modRevision, nameOf(key)).document;
      return [...holders, ...queue].some(({ session }) => isAlive(session))
        ? `${key.toString()}: ${value.toString()}`
        : [];
    });
    return [...locks, ...this.below('q').map(({ key, value }) => `${key.toString()}: ${value.toString()}`)];
  }

  storedKeys(): readonly string[] {
    return this.below('l').map(({ key }) => key.toString().slice('nest-lock/l/'.length));
  }

  private below(space: string): readonly Stored[] {
    return this.keyspace.in({
      key: Buffer.from(`nest-lock/${space}/`),
      rangeEnd: Buffer.from(`nest-lock/${space}0`),
    });
  }

  private entriesIn({ key, value, modRevision }: EtcdKeyValue): number {
    const { holders, queue } = parseSessionDocument(value.toString(), modRevision, nameOf(key)).document;
    const notes = this.below('q').filter((note) =>
      nameOf(note.key).includes(nameOf(key).replace('/l/', '/q/')),
    );
    return holders.length + queue.length + notes.length;
  }

  /** Whose mailbox is under the lease. */
  private clientOf(lease: number): string | undefined {
    const mailbox = this.below('m').find((stored) => stored.lease === lease);
    return mailbox && /\/m\/(.+)$/.exec(nameOf(mailbox.key))?.[1];
  }

  private get header(): NonNullable<TxnReply['header']> {
    return { revision: this.keyspace.revision, raftTerm: this.raftTerm };
  }

  private watch(end: ServerEnd, id: number, { createRequest }: WatchRequest): void {
    this.watches.add(end, id, createRequest);
  }

  private replyTo(request: WireRequest & { readonly name: keyof Calls }): object {
    const isInTrouble = this.isRefusing && (this.isTroubleOfAll || request.name === 'LeaseKeepAlive');
    const trouble = isInTrouble ? this.dice.pick(TROUBLES) : undefined;
    if (trouble?.isExecuted !== false) {
      const reply = this.execute(request);
      if (!trouble) return reply;
    }
    throw new Refusal(trouble.code, trouble.details);
  }

  private execute({ name, request }: WireRequest & { readonly name: keyof Calls }): object {
    switch (name) {
      case 'Status':
        return { version: '3.5.0', leader: 1 };
      case 'Authenticate':
        throw new Refusal(9, 'etcdserver: authentication is not enabled');
      case 'LeaseGrant':
        this.leases.grant(request.ID, request.TTL);
        return { TTL: request.TTL };
      case 'LeaseRevoke':
        this.leases.revoke(request.ID);
        return {};
      case 'LeaseKeepAlive':
        if (this.deposed) {
          return { TTL: this.leases.lengthOf(request.ID, this.deposed.since), header: this.deposed.header };
        }
        return { TTL: this.leases.keepAlive(request.ID), header: this.header };
      case 'Txn': {
        const reply = this.keyspace.execute(request);
        return { ...reply, header: this.header };
      }
    }
  }
}
