import { beforeEach, describe, expect, it } from '@jest/globals';
import { systemChance } from '../common/clock.js';
import { leaseValidity } from '../port/timing.js';
import { ManualClock } from '../testing/manual-clock.js';
import { EtcdKeys } from './backend.js';
import type { Calls, TxnRequest } from './grpc.js';
import { EtcdSession, EtcdSessions, KEEP_ALIVES } from './sessions.js';

const SESSION_MS = 30_000;
const KEEP_ALIVE_MS = SESSION_MS / KEEP_ALIVES;
const REPLY_MS = 40;

type Sent = { [Name in keyof Calls]: readonly [Name, Calls[Name]['request']] }[keyof Calls];

const keys = new EtcdKeys('/');
let clock: ManualClock;
let sent: Sent[];
let ended: EtcdSession[];
let sessions: EtcdSessions;
/** The term in which the leader executes a request of this name. */
let termOf: (name: keyof Calls) => number;
let hasPresence: boolean;

async function call(name: keyof Calls, request: unknown): Promise<object> {
  sent.push([name, request] as unknown as Sent);
  await new Promise<void>((resolve) => clock.after(REPLY_MS, resolve));
  const header = { revision: 7, raftTerm: termOf(name) };
  const responses = [{ responseRange: { count: hasPresence ? 1 : 0, kvs: [] } }];
  return { header, TTL: SESSION_MS / 1000, succeeded: true, responses };
}

async function open(): Promise<EtcdSession> {
  void sessions.open();
  await clock.advance(2 * REPLY_MS);
  return sessions.current as EtcdSession;
}

async function close(): Promise<void> {
  const closed = sessions.close(false);
  await clock.advance(REPLY_MS);
  await closed;
}

describe('a session of etcd', () => {
  beforeEach(() => {
    clock = new ManualClock();
    [sent, ended, termOf, hasPresence] = [[], [], () => 1, true];
    sessions = new EtcdSessions({
      client: { call, member: {} } as never,
      keys,
      clock,
      chance: systemChance,
      clientId: 'client',
      commandTimeoutMs: 1000,
      watchdogTimeoutMs: SESSION_MS,
      onOpen: () => undefined,
      onRepaired: () => undefined,
      onEnd: (session) => ended.push(session),
    });
  });

  it('is valid from the moment at which its lease or the last keep-alive was requested', async () => {
    const openedAt = clock.now();
    const session = await open();
    expect(session.validUntil).toBe(leaseValidity(openedAt, SESSION_MS));
    await clock.advance(KEEP_ALIVE_MS);
    expect(session.validUntil).toBe(leaseValidity(openedAt + KEEP_ALIVE_MS, SESSION_MS));
    await close();
  });

  it('is not prolonged by a keep-alive whose leader was replaced before it could know', async () => {
    const session = await open();
    const { validUntil } = session;
    termOf = (name) => (name === 'Txn' ? 2 : 1);
    await clock.advance(KEEP_ALIVE_MS);
    expect(session.validUntil).toBe(validUntil);
    termOf = () => 2;
    await clock.advance(KEEP_ALIVE_MS);
    expect(session.validUntil).toBeGreaterThan(validUntil);
    await close();
  });

  it('whose presence somebody has deleted ends, and its lease with it, so that etcd deletes its notes', async () => {
    const { leaseId } = await open();
    hasPresence = false;
    await clock.advance(KEEP_ALIVE_MS);
    expect(ended.map((session) => session.leaseId)).toEqual([leaseId]);
    expect(sent).toContainEqual(['LeaseRevoke', { ID: leaseId }]);
    await close();
  });

  it('creates its presence only where there is none: a late copy must not set the epoch back', async () => {
    const { id } = await open();
    const [, creation] = sent.find(([name]) => name === 'Txn') as readonly [string, TxnRequest];
    expect(creation.compare).toEqual([
      { key: keys.session(id), target: 'CREATE', result: 'EQUAL', createRevision: 0 },
    ]);
    await close();
  });
});
