import { expect, it } from '@jest/globals';
import { EtcdKeys } from './backend.js';
import type { RequestOp, TxnRequest } from './grpc.js';
import { EtcdOutbox } from './batch.js';

const message = (name: string, text: string, ...clients: readonly string[]) => ({
  name,
  clients,
  text: () => text,
});

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
  outbox.tell(message('a', '1', 'c'));
  outbox.tell(message('b', '2', 'c'));
  outbox.tell(message('a', '1', 'd'));
  await turn();
  outbox.tell(message('a', '3', 'c'));
  outbox.tell(message('a', '4', 'c'));
  await turn();
  expect(sent).toEqual([['/m/c: 1\n2', '/m/d: 1']]);
  reply();
  await turn();
  expect(sent.slice(1)).toEqual([['/m/c: 4']]);
});

it('messages that are too long for one transaction go in several', async () => {
  const { outbox, sent, reply } = stage();
  for (const name of ['a', 'b', 'c']) outbox.tell(message(name, 'x'.repeat(200 * 1024), 'c'));
  await turn();
  reply();
  await turn();
  expect(sent.map(([text = '']) => text.length > 400_000)).toEqual([true, false]);
});

it('an outbox that is closed sends nothing more', async () => {
  const { outbox, sent, reply } = stage();
  outbox.tell(message('a', '1', 'c'));
  await turn();
  outbox.tell(message('b', '2', 'c'));
  outbox.close();
  reply();
  await turn();
  expect(sent).toHaveLength(1);
});

it('a client that was told with the write is not told again, and the others get its revision', async () => {
  const { outbox, sent } = stage();
  const text = (version: number, writtenAt: number) => `${version} ${writtenAt}`;
  outbox.tell({ name: 'a', clients: ['c', 'd'], text }, ['c'], 7);
  await turn();
  expect(sent).toEqual([['/m/d: 7 7']]);
});
