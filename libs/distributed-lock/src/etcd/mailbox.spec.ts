import { EventEmitter } from 'node:events';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { systemChance } from '../common/clock.js';
import { ManualClock } from '../testing/manual-clock.js';
import { EtcdKeys } from './backend.js';
import type { WatchReply, WatchRequest } from './grpc.js';
import { EtcdMailbox } from './sessions.js';

const CREATED_AT = 10;

/** A watch whose replies the test gives. */
class Watch extends EventEmitter {
  isCancelled = false;
  from: number | undefined;

  write({ createRequest }: WatchRequest): void {
    this.from = createRequest.startRevision;
  }

  cancel(): void {
    this.isCancelled = true;
  }

  reply(reply: Partial<WatchReply>): void {
    const none = {
      header: null,
      created: false,
      canceled: false,
      cancelReason: '',
      compactRevision: 0,
      events: [],
    };
    this.emit('data', { ...none, ...reply });
  }

  message(text: string, modRevision: number): void {
    const kv = { key: Buffer.alloc(0), createRevision: CREATED_AT, modRevision, value: Buffer.from(text) };
    this.reply({ events: [{ type: 'PUT', kv }] });
  }
}

describe('the mailbox of a client of etcd', () => {
  let clock: ManualClock;
  let watches: Watch[];
  let messages: string[];
  let gaps: number;
  let member: { watch(): Watch };
  let mailbox: EtcdMailbox;
  const watch = () => watches.at(-1) as Watch;

  beforeEach(() => {
    clock = new ManualClock();
    [watches, messages, gaps] = [[], [], 0];
    member = { watch: () => watches[watches.push(new Watch()) - 1] as Watch };
    const client = {
      get member() {
        return member;
      },
      onFailure: () => undefined,
    };
    mailbox = new EtcdMailbox({
      client: client as never,
      keys: new EtcdKeys('/'),
      clock,
      chance: systemChance,
      clientId: 'client',
      commandTimeoutMs: 1000,
      watchdogTimeoutMs: 30_000,
      onMessage: (text) => messages.push(text),
      onGap: () => (gaps += 1),
      onDeleted: () => undefined,
    });
    mailbox.startAfter(CREATED_AT);
    watch().reply({ created: true });
  });

  it('passes on each message, and is read up to the newest', () => {
    watch().message('one\ntwo', 12);
    expect([messages, mailbox.readUpTo, gaps]).toEqual([['one', 'two'], 12, 0]);
    watch().reply({ header: { revision: 20, raftTerm: 1 } });
    expect(mailbox.readUpTo).toBe(20);
  });

  it('goes on behind the last message with the next member, and says that some may have come late', () => {
    watch().message('one', 12);
    member = { ...member };
    mailbox.watch();
    expect(watch().from).toBe(13);
    watch().reply({ created: true });
    expect(gaps).toBe(1);
  });

  it('says that messages are lost which etcd has compacted away, and goes on where etcd still has some', () => {
    const before = watch();
    before.reply({ compactRevision: 50 });
    expect(gaps).toBe(1);
    expect([before.isCancelled, watch() === before, watch().from]).toEqual([true, false, 50]);
    watch().message('later', 51);
    expect(messages).toEqual(['later']);
  });

  it('says that messages are lost when etcd was restored to an earlier revision, and goes on from there', () => {
    watch().message('one', 12);
    mailbox.goBackTo(5);
    expect([gaps, watch().from]).toEqual([1, 6]);
    mailbox.goBackTo(5);
    expect(gaps).toBe(1);
  });

  it('watches again at the same member after a moment, if that one ends the watch', async () => {
    watch().emit('end');
    expect(watches).toHaveLength(1);
    await clock.advance(200);
    expect(watches).toHaveLength(2);
    mailbox.close();
    expect(clock.pendingTimers).toBe(0);
  });
});
