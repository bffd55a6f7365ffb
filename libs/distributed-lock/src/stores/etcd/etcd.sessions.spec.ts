import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from '../../testing/manual-clock.js';
import { systemChance } from '../../time/chance.js';
import { ConnectionErrors } from '../common/connection/connection-errors.js';
import type { EtcdClient } from './etcd.client.js';
import { EtcdKeys } from './etcd.keys.js';
import { EtcdSessions, KEEP_ALIVES } from './etcd.sessions.js';

const LENGTH_MS = 9000;

describe('the session of a client of etcd', () => {
  let clock: ManualClock;
  let sessions: EtcdSessions;
  /** The requests that etcd has not answered. */
  let unanswered: { readonly name: string; readonly answer: () => void }[];

  const answerAll = async (): Promise<void> => {
    for (const { answer } of unanswered.splice(0)) answer();
    await clock.advance(0);
  };

  beforeEach(async () => {
    [clock, unanswered] = [new ManualClock(), []];
    const header = { revision: 1, raftTerm: 2 };
    const responses = [{ responseRange: { count: 1 } }];
    const client = {
      member: {},
      errors: new ConnectionErrors('etcd'),
      call: (name: string) =>
        new Promise((resolve) => {
          const reply = { TTL: LENGTH_MS / 1000, header, succeeded: true, responses };
          unanswered.push({ name, answer: () => resolve(reply) });
        }),
    };
    sessions = new EtcdSessions({
      client: client as unknown as EtcdClient,
      keys: new EtcdKeys('locks/'),
      clock,
      chance: systemChance,
      clientId: 'c1',
      commandTimeoutMs: 1000,
      watchdogTimeoutMs: LENGTH_MS,
      onOpen: () => undefined,
      onRepaired: () => undefined,
      onEnd: () => undefined,
    });
    void sessions.open();
    await answerAll();
    await answerAll();
  });

  it('is kept alive several times in its length', async () => {
    expect(sessions.current).toBeDefined();
    await clock.advance(LENGTH_MS / KEEP_ALIVES);
    expect(unanswered.map(({ name }) => name)).toEqual(['LeaseKeepAlive']);
  });

  it('leaves no timer when the client closes while a keep-alive is in flight', async () => {
    await clock.advance(LENGTH_MS / KEEP_ALIVES);
    const closed = sessions.close(false);
    for (let i = 0; i < 3; i++) await answerAll();
    await closed;
    expect(clock.pendingTimers).toBe(0);
  });
});
