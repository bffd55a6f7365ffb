import { inBackground } from '../../async-context/in-background.js';
import { afterReading } from '../../time/after-reading.js';
import type { Clock } from '../../time/clock.js';
import type { EtcdClient } from './etcd.client.js';
import { etcdFailure, type EtcdFailure } from './etcd.failure.js';
import type { EtcdKeys } from './etcd.keys.js';
import type { EtcdMember } from './etcd.member.js';
import type { Compare, RequestOp, ResponseOp, TxnReply, TxnRequest } from './etcd.messages.js';
import { epochText, type EtcdSession } from './etcd.session.js';
import { inOne } from './etcd.parts.js';
import { Batch, type EtcdRequest } from './etcd.requests.js';

interface PipeOptions {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  /** The session of the next writes. */
  readonly session: () => EtcdSession | undefined;
  /** The newest revision of etcd that this client knows of otherwise. */
  readonly newestRevision?: () => number;
  /** etcd is behind what it has said before, so it was restored from a snapshot. */
  readonly onRestored?: (revision: number) => void;
  /** A transaction has found no trace of the session. */
  readonly onSessionGone: (session: EtcdSession) => void;
}

type NewRequest<Reply> = Omit<EtcdRequest<Reply>, 'since' | 'resolve' | 'reject'>;

/** A batch on its way. */
interface Sent {
  readonly batch: Batch;
  readonly member: EtcdMember;
  readonly session: EtcdSession | undefined;
  readonly isWrite: boolean;
  /** Finds the replies to its requests. */
  readonly repliesIn: (responses: readonly ResponseOp[]) => readonly TxnReply[];
  /** The newest revision when it was sent. Its reply tells a newer one, or the same. */
  readonly newest: number;
  /** The epoch that it sets, if it does. */
  readonly epoch: number | undefined;
  readonly cancel: () => void;
}

/**
 * The transactions of this client. One is in flight at a time, and the requests that come meanwhile go together in the next one:
 * each is a transaction inside it, with comparisons of its own.
 *
 * The fence: each transaction that writes compares the epoch of its session. One that was not answered may be executed at any
 * time later. So the next transaction raises the epoch: whichever of the two is executed second, the old one is not executed
 * after the new one.
 *
 * A deadline counts from the last reply, so that a request fails only when etcd has stopped replying.
 */
export class EtcdPipe {
  private waiting: EtcdRequest[] = [];
  private sent: Sent | undefined;
  private repliedAt = -Infinity;
  /** Of the last reply. */
  private revision = 0;
  private cancelDeadline: (() => void) | undefined;
  private isScheduled = false;
  private isClosed = false;

  constructor(private readonly options: PipeOptions) {}

  /** @throws LockStoreError: `unknown` if it may have been executed */
  run<Reply>(request: NewRequest<Reply>): Promise<Reply> {
    const { client, clock, commandTimeoutMs } = this.options;
    return new Promise((resolve, reject) => {
      if (this.isClosed) return reject(client.closedError(request.key));
      this.waiting.push({ ...request, since: clock.now(), resolve, reject } as EtcdRequest);
      this.schedule();
      if (!this.cancelDeadline) this.armDeadline(commandTimeoutMs);
    });
  }

  /** The requests that come in the same turn go together. */
  schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    queueMicrotask(() => {
      this.isScheduled = false;
      this.sendNext();
    });
  }

  /** etcd refuses this client: the requests need not wait for their deadlines. */
  refuseWaiting(): void {
    const { client } = this.options;
    for (const request of this.waiting.splice(0))
      request.reject(client.noMember('no connection', request.key));
  }

  /** Rejects all requests. */
  close(): void {
    const { client } = this.options;
    this.isClosed = true;
    this.cancelDeadline?.();
    const { sent } = this;
    this.sent = undefined;
    for (const request of sent?.batch.requests ?? [])
      request.reject(client.closedError(request.key, 'unknown'));
    for (const request of this.waiting.splice(0)) request.reject(client.closedError(request.key));
  }

  private sendNext(): void {
    const { client, session: sessionNow } = this.options;
    const { member } = client;
    if (this.isClosed || this.sent || !member) return;
    const session = sessionNow();
    this.refuseThoseOfOtherSessions(session);
    if (this.waiting.length === 0) return;
    const batch = this.takeBatch();
    const epoch = session?.needsFence ? session.epoch + 1 : undefined;
    const isWrite = epoch !== undefined || batch.requests.some((request) => request.session);
    const { request, repliesIn } = this.requestFor(batch, session, { epoch, isWrite });
    const { reply, cancel } = member.call('Txn', request);
    const newest = Math.max(this.revision, this.options.newestRevision?.() ?? 0);
    const sent: Sent = { batch, member, session, isWrite, newest, epoch, repliesIn, cancel };
    this.sent = sent;
    // Counted before the reply: one that is not answered may have set it.
    if (session && epoch !== undefined) session.epoch = epoch;
    inBackground(
      reply.then((txn) => this.onReply(sent, txn)),
      (error) => this.onFailure(sent, error),
    );
    if (!this.cancelDeadline) this.armDeadline(this.options.commandTimeoutMs);
  }

  private takeBatch(): Batch {
    const batch = new Batch();
    this.waiting = this.waiting.filter((request) => {
      const isIn = batch.add(request);
      if (!isIn) batch.block(request);
      return !isIn;
    });
    return batch;
  }

  private requestFor(
    { requests }: Batch,
    session: EtcdSession | undefined,
    { epoch, isWrite }: Pick<Sent, 'epoch' | 'isWrite'>,
  ): { readonly request: TxnRequest; readonly repliesIn: Sent['repliesIn'] } {
    const { operations, repliesIn } = inOne(
      requests.map((request) => request.toTxn),
      isWrite,
    );
    if (!session) return { request: { success: operations }, repliesIn };
    const key = this.options.keys.session(session.id);
    const failure: RequestOp[] = [{ requestRange: { key, countOnly: true } }];
    const value = epochText(epoch ?? session.epoch);
    const compare: Compare[] = [
      { key, target: 'VALUE', result: epoch === undefined ? 'EQUAL' : 'LESS', value },
    ];
    const fence: RequestOp[] = epoch === undefined ? [] : [{ requestPut: { key, value, ignoreLease: true } }];
    return { request: { compare, success: [...operations, ...fence], failure }, repliesIn };
  }

  private onReply(sent: Sent, { header, succeeded, responses }: TxnReply): void {
    if (this.sent !== sent) return;
    this.sent = undefined;
    this.repliedAt = this.options.clock.now();
    this.revision = header?.revision ?? 0;
    if (header && header.revision < sent.newest) this.options.onRestored?.(header.revision);
    const { batch, session, epoch } = sent;
    if (!succeeded && session) {
      // Nothing of it was executed. A value that no fence can raise was not written by this client.
      const isGone = responses[0]?.responseRange?.count === 0 || epoch !== undefined;
      if (isGone) this.options.onSessionGone(session);
      else session.needsFence = true;
      this.waiting.unshift(...batch.requests);
    } else {
      if (session && epoch !== undefined) session.needsFence = false;
      const { revision } = this;
      const replies = sent.repliesIn(responses);
      for (const [i, request] of batch.requests.entries()) {
        try {
          request.resolve(request.toReply(replies[i] as TxnReply, revision));
        } catch (error) {
          request.reject(error);
        }
      }
    }
    this.sendNext();
  }

  private refuseThoseOfOtherSessions(session: EtcdSession | undefined): void {
    const { client } = this.options;
    this.waiting = this.waiting.filter((request) => {
      if (!request.session || request.session === session) return true;
      request.reject(
        client.errorOf(
          { reason: 'unready', detail: `the session ${request.session.id} of this client is over` },
          request.key,
        ),
      );
      return false;
    });
  }

  private onFailure(sent: Sent, error: unknown): void {
    if (this.sent !== sent) return;
    this.sent = undefined;
    const { clock, commandTimeoutMs, client, onSessionGone } = this.options;
    const failure = etcdFailure(error);
    const { batch, member, session, isWrite } = sent;
    const now = clock.now();
    if (failure.reason === 'unknown') {
      if (session && isWrite && !failure.isAnswered) session.needsFence = true;
      this.rejectAll(batch.requests, isWrite ? failure : { ...failure, reason: 'unready' }, error);
    } else {
      if (failure.isLeaseGone && session) onSessionGone(session);
      const isTogether = failure.isTooLarge && batch.requests.length > 1;
      const mayRepeat = isTogether || failure.isOfMember || failure.needsToken || failure.isLeaseGone;
      const again = mayRepeat ? batch.requests.filter(({ since }) => now < since + commandTimeoutMs) : [];
      this.rejectAll(
        batch.requests.filter((request) => !again.includes(request)),
        failure,
        error,
      );
      this.waiting.unshift(...again.map((request) => (isTogether ? { ...request, isAlone: true } : request)));
    }
    client.onFailure(member, failure, error);
    this.sendNext();
  }

  private rejectAll(requests: readonly EtcdRequest[], failure: EtcdFailure, cause: unknown): void {
    const { client } = this.options;
    for (const request of requests) request.reject(client.errorOf(failure, request.key, cause));
  }

  private armDeadline(ms: number): void {
    this.cancelDeadline = afterReading(this.options.clock, ms, (overAt) => this.onDeadline(overAt));
  }

  /**
   * One timer for all requests. It fails those that are due, and is set again for the next.
   *
   * @param now when the timer was due: what was sent since then in a long turn had no chance of a reply
   */
  private onDeadline(now: number): void {
    this.cancelDeadline = undefined;
    const { client, commandTimeoutMs: ms, clock } = this.options;
    const isDue = (request: EtcdRequest): boolean => this.dueAt(request) <= now;
    const { sent } = this;
    if (sent?.batch.requests.some(isDue)) {
      sent.cancel();
      this.onFailure(sent, new Error(`nothing came back within ${ms} ms`));
    }
    const late = this.waiting.filter(isDue);
    this.waiting = this.waiting.filter((request) => !late.includes(request));
    for (const request of late) request.reject(client.noMember(`no connection within ${ms} ms`, request.key));
    const left = [...this.waiting, ...(this.sent?.batch.requests ?? [])];
    const next = left.reduce((least, request) => Math.min(least, this.dueAt(request)), Infinity);
    if (next < Infinity) this.armDeadline(Math.max(1, Math.ceil(next - clock.now())));
  }

  private dueAt({ since }: EtcdRequest): number {
    return Math.max(since, this.repliedAt) + this.options.commandTimeoutMs;
  }
}
