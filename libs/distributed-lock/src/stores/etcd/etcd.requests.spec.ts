import { describe, expect, it } from '@jest/globals';
import { MAILBOX_SLOTS } from './etcd.keys.js';
import { Batch, type EtcdRequest } from './etcd.requests.js';

const request = (parts: Partial<EtcdRequest>): EtcdRequest => ({
  names: [],
  key: undefined,
  clients: [],
  toTxn: () => ({ success: [] }),
  depth: 2,
  bytes: 100,
  toReply: () => undefined,
  since: 0,
  resolve: () => undefined,
  reject: () => undefined,
  ...parts,
});
const countIn = (batch: Batch, requests: readonly EtcdRequest[]) =>
  requests.filter((each) => batch.add(each)).length;
const many = (parts: Partial<EtcdRequest>) => Array.from({ length: 500 }, () => request(parts));

describe('a batch of requests', () => {
  it('has each name once', () => {
    const batch = new Batch();
    expect([['a'], ['b', 'c'], ['a'], ['c']].map((names) => batch.add(request({ names })))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it('lets no request overtake one on the same name that has to wait', () => {
    const batch = new Batch();
    batch.add(request({ depth: 100 }));
    const waits = request({ names: ['a'], depth: 119 });
    expect(batch.add(waits)).toBe(false);
    batch.block(waits);
    expect(batch.add(request({ names: ['a'] }))).toBe(false);
    expect(batch.add(request({ names: ['b'] }))).toBe(true);
  });

  it('stays within the operations, the bytes and the slots that etcd and a mailbox have', () => {
    expect(countIn(new Batch(), many({}))).toBe(118);
    expect(countIn(new Batch(), many({ depth: 60 }))).toBe(60);
    expect(countIn(new Batch(), many({ bytes: 100_000 }))).toBe(5);
    expect(countIn(new Batch(), many({ clients: ['a'] }))).toBe(MAILBOX_SLOTS);
  });

  it('takes a request alone that was in a batch too large for etcd, wherever it comes', () => {
    const [alone, other] = [request({ isAlone: true }), request({})];
    expect(countIn(new Batch(), [alone, other, alone])).toBe(1);
    expect(countIn(new Batch(), [other, alone, other])).toBe(2);
  });

  it('takes a request that is too large for others alone', () => {
    const batch = new Batch();
    expect(countIn(batch, [request({ depth: 500 }), request({})])).toBe(1);
  });
});
