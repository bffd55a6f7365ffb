import type { WatchReply, WatchRequest } from '../../../../libs/distributed-lock/src/etcd/grpc.js';
import type { Kernel } from '../../kernel/kernel.js';
import { count } from '../../summary/counts.js';
import type { Compaction } from './compaction.js';
import type { ServerEnd } from '../../network/connection.js';
import { nameOf, type Change, type Keyspace } from './keyspace.js';
import type { WireReply } from './wire.js';

interface Watch {
  readonly end: ServerEnd;
  readonly id: number;
  readonly name: string;
  /** What has a smaller revision was brought. */
  from: number;
}

const NOTHING = { created: false, canceled: false, compactRevision: 0, cancelReason: '', events: [] };

/** The watches of all connections. Each brings the changes of its keys, from a revision on, in order and without a gap. */
export class Watches {
  private readonly watches = new Set<Watch>();
  private isLate = false;

  constructor(
    private readonly kernel: Kernel,
    private readonly keyspace: Keyspace,
    private readonly lagMs: number,
    private readonly compaction: Compaction,
    private readonly header: () => WatchReply['header'],
  ) {}

  add(end: ServerEnd, id: number, { key, startRevision }: WatchRequest['createRequest']): void {
    // 0 stands for the present.
    const from = startRevision || this.keyspace.revision + 1;
    const watch = { end, id, name: nameOf(key), from };
    this.watches.add(watch);
    this.send(watch, { ...NOTHING, header: this.header(), created: true }, 're:watch');
    this.bringTo(watch);
  }

  end(end: ServerEnd, id: number): void {
    for (const watch of this.watches) if (watch.end === end && watch.id === id) this.watches.delete(watch);
  }

  endAll(end: ServerEnd): void {
    for (const watch of this.watches) if (watch.end === end) this.watches.delete(watch);
  }

  /** etcd ends all watches, as it does when their member has no leader, or their user no right any more. */
  cancelAll(cancelReason: string): void {
    for (const watch of this.watches)
      this.send(watch, { ...NOTHING, header: this.header(), canceled: true, cancelReason }, 'message');
    this.watches.clear();
  }

  /** Something may have changed. */
  bring(): void {
    if (this.lagMs === 0) return this.bringAll();
    if (this.isLate) return;
    this.isLate = true;
    this.kernel.after(this.lagMs, () => {
      this.isLate = false;
      this.bringAll();
    });
  }

  private bringAll(): void {
    for (const watch of this.watches) this.bringTo(watch);
  }

  private bringTo(watch: Watch): void {
    const { revision, changes } = this.keyspace;
    const compactRevision = this.compaction.revision;
    if (watch.from < compactRevision) {
      count('etcd: a watch is cancelled by a compaction');
      this.watches.delete(watch);
      return this.send(
        watch,
        { ...NOTHING, header: this.header(), canceled: true, compactRevision },
        'message',
      );
    }
    if (revision < watch.from) return;
    const events: Change[] = [];
    for (let i = changes.length - 1; i >= 0; i--) {
      const change = changes[i] as Change;
      if (change.kv.modRevision < watch.from) break;
      const name = nameOf(change.kv.key);
      if (name === watch.name) events.unshift(change);
    }
    watch.from = revision + 1;
    if (events.length === 0) return;
    const told = events.map(({ type, kv }) => ({ type, kv }));
    this.send(watch, { ...NOTHING, header: this.header(), events: told }, 'message');
  }

  private send({ end, id }: Watch, watched: WatchReply, kind: string): void {
    end.send({ id, watched } satisfies WireReply, kind);
  }
}
