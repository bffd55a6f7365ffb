import { beforeEach, describe, expect, it } from '@jest/globals';
import { LOCK } from '../port/lock-store.js';
import { ManualClock } from '../testing/manual-clock.js';
import type { Holder, LockDocument, StoredNote, StoredWaiter } from '../document/document.js';
import { SessionKnowledge } from './remembered-documents.js';

function holder(owner: string, more: Partial<Holder> = {}): Holder {
  return {
    owner,
    claim: LOCK,
    token: 5,
    lastToken: 5,
    until: Infinity,
    leaseMs: 9000,
    session: 's1',
    ...more,
  };
}

function waiter(owner: string, session: string): StoredWaiter {
  const given = { owner, claim: LOCK, leaseMs: 9000, tokens: 1, minToken: 0, ticket: 7 };
  return { ...given, nonce: 'n', until: Infinity, session };
}

function note(owner: string, session: string): StoredNote {
  const { until: _, ...given } = waiter(owner, session);
  return { ...given, waitMs: Infinity, at: 8 };
}

const document = (holders: readonly Holder[], queue: readonly StoredWaiter[] = []): LockDocument => ({
  holders,
  queue,
});

describe('what a client knows about the sessions of others', () => {
  let clock: ManualClock;
  let knowledge: SessionKnowledge;
  beforeEach(() => {
    clock = new ManualClock();
    knowledge = new SessionKnowledge(clock);
  });

  it('each session of a document and its notes must be asked for, once', () => {
    const found = knowledge.unknownIn(document([holder('a:1')], [waiter('b:1', 's2'), waiter('b:2', 's2')]), [
      note('c:1', 's3'),
    ]);
    expect(found).toEqual(['s1', 's2', 's3']);
  });

  it('one that was alive or had ended is not asked for again within a second', async () => {
    const both = document([holder('a:1')], [waiter('b:1', 's2')]);
    knowledge.onAlive('s1');
    knowledge.onEnd('s2');
    await clock.advance(999);
    expect(knowledge.unknownIn(both, [])).toEqual([]);
    await clock.advance(1);
    expect(knowledge.unknownIn(both, [])).toEqual(['s1', 's2']);
  });

  it('the entries of one that ended are over, and those of others are not', () => {
    knowledge.onEnd('s1');
    const judged = knowledge.judge(
      document([holder('a:1'), holder('b:1', { session: 's2' })], [waiter('a:2', 's1')]),
    );
    expect(judged.holders.map(({ until }) => until)).toEqual([-Infinity, Infinity]);
    expect(judged.queue.map(({ until }) => until)).toEqual([-Infinity]);
    expect(knowledge.hasEnded(note('a:3', 's1'))).toBe(true);
  });

  it('one that had ended and lives again, after the restore of a backup, keeps its locks', () => {
    knowledge.onEnd('s1');
    knowledge.onAlive('s1');
    expect(knowledge.judge(document([holder('a:1')])).holders[0]?.until).toBe(Infinity);
  });

  it('a grant that was taken back and given again under another token has its own time to be confirmed', async () => {
    const unconfirmed = (token: number) => document([holder('a:1', { token, isUnconfirmed: true })]);
    const endOf = (token: number) => knowledge.judge(unconfirmed(token)).holders[0]?.until;
    expect(endOf(5)).toBe(Infinity);
    await clock.advance(1000);
    expect(endOf(5)).toBe(-Infinity);
    expect(endOf(6)).toBe(Infinity);
    await clock.advance(1000);
    expect(endOf(6)).toBe(-Infinity);
  });

  it('with too many sessions the oldest are forgotten, and asked for again', () => {
    for (let i = 0; i <= 5000; i++) {
      knowledge.onAlive(`alive ${i}`);
      knowledge.onEnd(`ended ${i}`);
    }
    const sessions = ['alive 0', 'alive 1', 'ended 0', 'ended 1'];
    const unknown = knowledge.unknownIn(document(sessions.map((session) => holder('a:1', { session }))), []);
    expect(unknown).toEqual(['alive 0', 'ended 0']);
  });
});
