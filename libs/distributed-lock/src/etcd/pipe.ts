import { WaitingRequests } from '../connection/reply-deadline.js';
import { RequestPipe } from '../connection/request-pipe.js';
import { Batch, type EtcdOutbox, type EtcdRequest } from './batch.js';
import type { EtcdContext } from './client.js';
import type { Compare, RequestOp, TxnReply, TxnRequest } from './grpc.js';
import { etcdFailure, type EtcdFailure, type EtcdMember } from './member.js';
import { EtcdSession } from './sessions.js';

/**
 * Sends this client's requests to etcd in transactions. One transaction is in flight at a time. Requests that come meanwhile go
 * together in the next one (`Batch`).
 *
 * A transaction whose reply was lost may be executed at any later time, even after its lock was granted to somebody else. So
 * there is a fence: the presence key of the session contains a number, the **epoch**, and each transaction that writes compares
 * it. After a lost reply the next transaction raises the epoch. As soon as etcd has executed that one, it refuses the earlier
 * one.
 */
export class EtcdPipe {
  private readonly waiting = new WaitingRequests<EtcdRequest>();
  private readonly pipe: RequestPipe<EtcdRequest>;
  private onSilence: (error: Error) => void = () => undefined;
  /** The revision in the last reply of etcd. */
  private revision = 0;

  constructor(private readonly options: PipeOptions) {
    const { client, commandTimeoutMs } = options;
    const { errors } = client;
    this.pipe = new RequestPipe({
      ...options,
      waiting: this.waiting,
      sendBatch: () => this.sendBatch(),
      onSilence: (error) => this.onSilence(error),
      lateError: ({ key }) => errors.unsent(`no connection within ${commandTimeoutMs} ms`, key),
      closedError: (key, reason) => errors.closed(key, reason),
    });
  }

  /** @throws LockStoreError, with the reason `unknown` if etcd may have executed the request */
  run<Reply>(request: NewRequest<Reply>): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.pipe.add({ ...request, since: this.options.clock.now(), resolve, reject } as EtcdRequest);
    });
  }

  /** Called when a member is connected. Sends the requests that wait. */
  schedule(): void {
    this.pipe.onOpen();
  }

  /** Called when etcd refuses this client. Rejects the waiting requests now, because a retry would be refused again. */
  refuseWaiting(): void {
    const { errors } = this.options.client;
    for (const request of this.waiting.take()) request.reject(errors.unsent('no connection', request.key));
  }

  close(): void {
    this.pipe.close();
  }

  private sendBatch(): void {
    const { client, session: sessionNow } = this.options;
    const { member } = client;
    if (!member) return;
    const session = sessionNow();
    this.refuseThoseOfOtherSessions(session);
    if (this.waiting.size === 0) return;
    const batch = new Batch();
    this.waiting.take((request) => batch.add(request));
    const epoch = session?.needsFence ? session.epoch + 1 : undefined;
    const isWrite = epoch !== undefined || batch.requests.some((request) => request.session);
    const { request, answersIn } = this.requestFor(batch, session, { epoch, isWrite });
    const { reply, cancel } = member.call('Txn', request);
    const newest = Math.max(this.revision, this.options.newestRevision());
    const sent: Sent = { batch, member, session, isWrite, newest, epoch, answersIn };
    // Store the epoch before the reply comes: if the reply is lost, etcd may have raised it all the same.
    if (session && epoch !== undefined) session.epoch = epoch;
    const onFailure = (error: unknown): void => this.onFailure(sent, error);
    this.onSilence = (error) => {
      cancel();
      onFailure(error);
    };
    this.pipe.send(batch.requests, reply, { onReply: (txn) => this.onReply(sent, txn), onFailure });
  }

  private requestFor(
    batch: Batch,
    session: EtcdSession | undefined,
    { epoch, isWrite }: Pick<Sent, 'epoch' | 'isWrite'>,
  ): { readonly request: TxnRequest; readonly answersIn: Sent['answersIn'] } {
    const { operations, answersIn } = batch.toTxn(this.options.keys, isWrite);
    if (!session) return { request: { success: operations }, answersIn };
    const key = this.options.keys.session(session.id);
    const failure: RequestOp[] = [{ requestRange: { key, countOnly: true } }];
    const value = EtcdSession.epochText(epoch ?? session.epoch);
    const compare: Compare[] = [
      { key, target: 'VALUE', result: epoch === undefined ? 'EQUAL' : 'LESS', value },
    ];
    const fence: RequestOp[] = epoch === undefined ? [] : [{ requestPut: { key, value, ignoreLease: true } }];
    return { request: { compare, success: [...operations, ...fence], failure }, answersIn };
  }

  private onReply(sent: Sent, { header, succeeded, responses }: TxnReply): void {
    this.revision = header?.revision ?? 0;
    if (header && header.revision < sent.newest) this.options.onRestored(header.revision);
    const { batch, session, epoch } = sent;
    if (!succeeded && session) {
      // etcd executed nothing of this transaction. Either the presence is gone, or its epoch differs. If it differs although this
      // transaction was the one to raise the epoch, somebody else has written the presence, and this session is of no more use.
      const isGone = responses[0]?.responseRange?.count === 0 || epoch !== undefined;
      if (isGone) this.options.onSessionGone(session);
      else session.needsFence = true;
      return this.waiting.putBack(batch.requests);
    }
    if (session && epoch !== undefined) session.needsFence = false;
    const { revision } = this;
    const { outbox } = this.options;
    const answers = sent.answersIn(responses);
    for (const [i, request] of batch.requests.entries()) {
      try {
        const { reply, told } = answers[i] as (typeof answers)[number];
        request.resolve(request.toReply(reply, revision));
        if (request.messages && reply.succeeded) outbox.tell(request.messages, told, revision);
      } catch (error) {
        request.reject(error);
      }
    }
  }

  private refuseThoseOfOtherSessions(session: EtcdSession | undefined): void {
    const { errors } = this.options.client;
    const isOld = (request: EtcdRequest): boolean =>
      request.session !== undefined && request.session !== session;
    for (const request of this.waiting.take(isOld)) {
      const detail = `the session ${request.session?.id} of this client is over`;
      request.reject(errors.of({ reason: 'unready', detail }, request.key));
    }
  }

  private onFailure({ batch, member, session, isWrite }: Sent, error: unknown): void {
    this.pipe.takeInFlight();
    const { clock, commandTimeoutMs, client, onSessionGone } = this.options;
    const failure = etcdFailure(error);
    const now = clock.now();
    if (failure.reason === 'unknown') {
      if (session && isWrite && !failure.isAnswered) session.needsFence = true;
      this.rejectAll(batch.requests, isWrite ? failure : { ...failure, reason: 'unready' }, error);
    } else {
      if (failure.isLeaseGone && session) onSessionGone(session);
      const isTogether = failure.isTooLarge && batch.requests.length > 1;
      const mayRepeat = isTogether || failure.isOfMember || failure.needsToken || failure.isLeaseGone;
      const again = mayRepeat ? batch.requests.filter(({ since }) => now < since + commandTimeoutMs) : [];
      const failed = batch.requests.filter((request) => !again.includes(request));
      this.rejectAll(failed, failure, error);
      this.waiting.putBack(again.map((request) => (isTogether ? { ...request, isAlone: true } : request)));
    }
    client.onFailure(member, failure, error);
    this.pipe.sendNext();
  }

  private rejectAll(requests: readonly EtcdRequest[], failure: EtcdFailure, cause: unknown): void {
    const { errors } = this.options.client;
    for (const request of requests) request.reject(errors.of(failure, request.key, cause));
  }
}

interface PipeOptions extends EtcdContext {
  /** Sends those messages for which the transaction of their write had no room. */
  readonly outbox: EtcdOutbox;
  readonly session: () => EtcdSession | undefined;
  /** The newest revision that the mailbox has received from etcd. */
  readonly newestRevision: () => number;
  /** Called when the revision of a reply is lower than one seen before: an operator has restored etcd from a snapshot. */
  readonly onRestored: (revision: number) => void;
  readonly onSessionGone: (session: EtcdSession) => void;
}

type NewRequest<Reply> = Omit<EtcdRequest<Reply>, 'since' | 'resolve' | 'reject'>;

interface Sent {
  readonly batch: Batch;
  readonly member: EtcdMember;
  readonly session: EtcdSession | undefined;
  readonly isWrite: boolean;
  readonly answersIn: ReturnType<Batch['toTxn']>['answersIn'];
  /**
   * The newest revision that this client knew when it sent the transaction. A lower one in the reply means that etcd was
   * restored.
   */
  readonly newest: number;
  /** The new epoch, if this transaction raises it. */
  readonly epoch: number | undefined;
}
