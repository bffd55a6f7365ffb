import { expect, it } from '@jest/globals';
import { systemChance } from '../common/clock.js';
import { ConnectionErrors } from '../connection/connection-errors.js';
import { ManualClock } from '../testing/manual-clock.js';
import { EtcdKeys } from './backend.js';
import type { TxnReply, TxnRequest } from './grpc.js';
import { EtcdPipe } from './pipe.js';
import { EtcdSession } from './sessions.js';

const EXECUTED: TxnReply = {
  header: { revision: 8, raftTerm: 1 },
  succeeded: true,
  responses: [{ responseTxn: { header: null, succeeded: true, responses: [] } }, {}],
};

/** An etcd that replies, or loses its reply, when it is told to. */
function stage() {
  const keys = new EtcdKeys('/');
  const session = new EtcdSession(10, 30_000, 0);
  const sent: TxnRequest[] = [];
  const replies: { resolve: (reply: TxnReply) => void; reject: (error: Error) => void }[] = [];
  const call = (_: string, request: TxnRequest) => {
    sent.push(request);
    const reply = new Promise<TxnReply>((resolve, reject) => replies.push({ resolve, reject }));
    return { reply, cancel: () => undefined };
  };
  const pipe = new EtcdPipe({
    client: {
      member: { call },
      errors: new ConnectionErrors('etcd', 'server'),
      onFailure: () => undefined,
    } as never,
    keys,
    clock: new ManualClock(),
    chance: systemChance,
    clientId: 'client',
    commandTimeoutMs: 1000,
    watchdogTimeoutMs: 30_000,
    outbox: { tell: () => undefined } as never,
    session: () => session,
    newestRevision: () => 0,
    onRestored: () => undefined,
    onSessionGone: () => undefined,
  });
  const write = async (settle: (reply: (typeof replies)[number]) => void) => {
    const document = { requestPut: { key: keys.document('k'), value: Buffer.from('text') } };
    const txn = { success: [document] };
    const written = pipe.run({ key: 'k', session, txn, bytes: 1, toReply: () => 'written' });
    await new Promise(setImmediate);
    settle(replies.at(-1) as (typeof replies)[number]);
    return written;
  };
  return { pipe, sent, write, presence: keys.session(session.id) };
}

it('after a write whose reply was lost, the next one raises the epoch, so that etcd refuses the first if it comes late', async () => {
  const { pipe, sent, write, presence } = stage();
  const lost = write(({ reject }) => reject(new Error('the connection broke')));
  await expect(lost).rejects.toMatchObject({ code: 'LOCK_STORE', reason: 'unknown' });
  await write(({ resolve }) => resolve(EXECUTED));
  await write(({ resolve }) => resolve(EXECUTED));
  const epochOf = (epoch: number, result: string) => [
    { key: presence, target: 'VALUE', result, value: EtcdSession.epochText(epoch) },
  ];
  expect(sent.map(({ compare }) => compare)).toEqual([
    epochOf(1, 'EQUAL'),
    epochOf(2, 'LESS'),
    epochOf(2, 'EQUAL'),
  ]);
  const raised = { requestPut: { key: presence, value: EtcdSession.epochText(2), ignoreLease: true } };
  expect(sent.map(({ success }) => success.at(-1))).toEqual([
    expect.anything(),
    raised,
    expect.not.objectContaining(raised),
  ]);
  pipe.close();
});
