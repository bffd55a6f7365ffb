import { expect, it } from '@jest/globals';
import { EtcdKeys } from './etcd.keys.js';
import type { RequestOp, TxnRequest } from './etcd.messages.js';
import { EtcdOutbox } from './etcd.outbox.js';

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** An etcd that replies when it is told to. */
function stage() {
  const sent: string[][] = [];
  const replies: (() => void)[] = [];
  const textOf = ({ requestTxn }: RequestOp): string => {
    const put = requestTxn?.success[0]?.requestPut;
    return `${put?.key.toString()}: ${put?.value.toString()}`;
  };
  const call = (_: string, { success }: TxnRequest) => {
    sent.push(success.map(textOf));
    return new Promise((resolve, reject) => replies.push(() => (sent.length === 1 ? reject : resolve)({})));
  };
  const outbox = new EtcdOutbox({ call } as never, new EtcdKeys('/'));
  return { outbox, sent, reply: () => replies.shift()?.() };
}

it('the messages of one turn go together, and those that come meanwhile in the next transaction, also after a failure', async () => {
  const { outbox, sent, reply } = stage();
  outbox.tell('c', 'a', '1');
  outbox.tell('c', 'b', '2');
  outbox.tell('d', 'a', '1');
  await turn();
  outbox.tell('c', 'a', '3');
  outbox.tell('c', 'a', '4');
  await turn();
  expect(sent).toEqual([['/m/c: 1\n2', '/m/d: 1']]);
  reply();
  await turn();
  expect(sent.slice(1)).toEqual([['/m/c: 4']]);
});

it('messages that are too long for one transaction go in several', async () => {
  const { outbox, sent, reply } = stage();
  for (const name of ['a', 'b', 'c']) outbox.tell('c', name, 'x'.repeat(200 * 1024));
  await turn();
  reply();
  await turn();
  expect(sent.map(([text = '']) => text.length > 400_000)).toEqual([true, false]);
});

it('an outbox that is closed sends nothing more', async () => {
  const { outbox, sent, reply } = stage();
  outbox.tell('c', 'a', '1');
  await turn();
  outbox.tell('c', 'b', '2');
  outbox.close();
  reply();
  await turn();
  expect(sent).toHaveLength(1);
});
