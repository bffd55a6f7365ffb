import type { EtcdContext } from './etcd.client.js';
import { etcdFailure, watchError } from './etcd.failure.js';
import type { EtcdMember, WatchStream } from './etcd.member.js';
import type { EtcdKeyValue, WatchReply } from './etcd.messages.js';

const RETRY_MS = 200;

/** Watches the mailbox of this client, from a revision on and without a gap where etcd still has what was written since. */
export class EtcdMailbox {
  private stream: WatchStream | undefined;
  private member: EtcdMember | undefined;
  /** 0 until the mailbox was written for the first time. */
  private from = 0;
  private isFirst = true;
  private cancelRetry = (): void => undefined;

  constructor(private readonly options: MailboxOptions) {}

  /** @param revision the revision of the write that made the mailbox */
  startAfter(revision: number): void {
    if (this.from === 0) this.from = revision + 1;
    this.goBackTo(revision);
    this.watch();
  }

  /** The mailbox waits for no message that was written up to this revision. */
  get readUpTo(): number {
    return this.from - 1;
  }

  /** etcd was restored from a snapshot, so that its revisions count from an earlier one again. */
  goBackTo(revision: number): void {
    if (this.from <= revision + 1) return;
    this.stop();
    this.from = revision + 1;
    this.options.onGap();
    this.watch();
  }

  /** Watches at the member that is open now, if the watch was begun before. */
  watch(): void {
    const { member } = this.options.client;
    if (this.from === 0 || !member || (this.stream && this.member === member)) return;
    this.member = member;
    const stream = (this.stream = member.watch());
    stream.on('data', (reply: WatchReply) => this.onReply(stream, reply));
    stream.on('error', (error) => this.onEnd(stream, error));
    stream.on('end', () => this.onEnd(stream, new Error('etcd ended the watch')));
    const { keys, clientId } = this.options;
    const key = keys.mailbox(clientId);
    stream.write({ createRequest: { key, startRevision: this.from, progressNotify: true } });
  }

  close(): void {
    this.from = 0;
    this.cancelRetry();
    this.stop();
  }

  private onReply(stream: WatchStream, reply: WatchReply): void {
    if (this.stream !== stream) return;
    const { header, created, canceled, cancelReason, compactRevision, events } = reply;
    if (compactRevision > 0) {
      this.stop();
      this.from = compactRevision;
      this.options.onGap();
      return this.watch();
    }
    if (canceled) {
      stream.cancel();
      return this.onEnd(stream, watchError(cancelReason));
    }
    if (created) {
      if (!this.isFirst) this.options.onGap();
      this.isFirst = false;
      return;
    }
    for (const { type, kv } of events) {
      if (!kv) continue;
      this.from = kv.modRevision + 1;
      if (type === 'DELETE') this.options.onDeleted();
      else this.onMessages(kv);
    }
    // Only a reply without events says that all up to its revision was sent.
    if (events.length === 0 && header) this.from = Math.max(this.from, header.revision + 1);
  }

  /** The client that makes a mailbox writes an empty value. */
  private onMessages({ value, modRevision }: EtcdKeyValue): void {
    if (value.length === 0) return;
    for (const text of value.toString().split('\n')) this.options.onMessage(text, modRevision);
  }

  private onEnd(stream: WatchStream, error: unknown): void {
    const { client, clock } = this.options;
    const { member } = this;
    if (this.stream !== stream || !member) return;
    this.stream = undefined;
    client.onFailure(member, etcdFailure(error), error);
    // The next member starts the watch again. If the member stays the same, a timer does.
    if (client.member === member) this.cancelRetry = clock.after(RETRY_MS, () => this.watch());
  }

  private stop(): void {
    const { stream } = this;
    this.stream = undefined;
    stream?.cancel();
  }
}

interface MailboxOptions extends EtcdContext {
  readonly onMessage: (text: string, revision: number) => void;
  readonly onGap: () => void;
  readonly onDeleted: () => void;
}
