import { afterEach, describe, expect, it } from '@jest/globals';
import { LockConfigurationError } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { until } from '#until';
import {
  closeServices,
  elapsed,
  failureOf,
  openServiceOn,
  untilAborted,
} from '../../support/lock-services.js';
import type { TxnRequest } from '../../../libs/distributed-lock/src/etcd/grpc.js';
import { FakeEtcd, FakeKeys } from './support/fake-etcd.js';

/** Answers with which a session stays. */
const healthy = (keys: FakeKeys) => ({
  LeaseGrant: ({ TTL }: { TTL: number }) => ({ TTL }),
  LeaseKeepAlive: () => ({ header: { revision: 1, raftTerm: 7 }, TTL: 3 }),
  LeaseRevoke: () => ({}),
  Txn: keys.txn,
  Watch: () => ({ created: true }),
});
const isOfSteps = ({ success }: TxnRequest) => success.some(({ requestTxn }) => requestTxn);
const refusal = (code: number, details: string) => Object.assign(new Error(details), { code, details });

describe('a service on a server that is not as it should be', () => {
  let fake: FakeEtcd;
  afterEach(async () => {
    await closeServices();
    fake.stop();
  });
  const openOn = async (answers: Parameters<typeof FakeEtcd.start>[0], watchdogTimeoutMs: number) => {
    fake = await FakeEtcd.start(answers);
    return openServiceOn(etcdStore(fake.address), { watchdogTimeoutMs });
  };
  /** Asks until the failure says that: on a busy machine the first call may end before the server has answered. */
  const failureOn = async (answers: Parameters<typeof FakeEtcd.start>[0], says: RegExp) => {
    const service = await openOn(answers, 20_500);
    let failure: unknown;
    await until(async () => {
      failure = await failureOf(service.acquire('a', { waitMs: 0 }));
      return says.test(String(failure));
    });
    return failure;
  };

  it('refuses a session that is shorter than asked for, with both lengths', async () => {
    const says = /watchdogTimeoutMs \(20500\) needs a lease of 21 s, and etcd grants 10 s/;
    const failure = await failureOn({ LeaseGrant: () => ({ TTL: 10 }) }, says);
    expect(failure).toBeInstanceOf(LockConfigurationError);
  });

  it('refuses a release without the transactions that it needs', async () => {
    const says = /needs etcd 3\.4 or later; 127\.0\.0\.1:\d+ is 3\.3\.27/;
    const failure = await failureOn({ Status: () => ({ version: '3.3.27', leader: 1 }) }, says);
    expect(failure).toBeInstanceOf(LockConfigurationError);
  });

  it('says that it has no leader', async () => {
    const leaderless = { Status: () => ({ version: '3.5.1', leader: 0 }) };
    expect(await failureOn(leaderless, /it has no leader/)).toMatchObject({ reason: 'unready' });
  });

  it('says that it is no etcd', async () => {
    const failure = await failureOn({}, /Is it an etcd of version 3\.4 or later\?/);
    expect(failure).toMatchObject({ reason: 'refused' });
  });

  it('does not know whether a full database has executed a take, and sends the next one without a fence', async () => {
    const keys = new FakeKeys(() => 7);
    const fences: boolean[] = [];
    const service = await openOn(
      {
        ...healthy(keys),
        Txn: (txn: TxnRequest) => {
          if (!isOfSteps(txn)) return keys.txn(txn);
          fences.push(txn.success.some(({ requestPut }) => requestPut));
          if (fences.length === 1) throw refusal(8, 'etcdserver: mvcc: database space exceeded');
          return keys.txn(txn);
        },
      },
      20_000,
    );
    expect(await failureOf(service.acquire('a', { waitMs: 0 }))).toMatchObject({
      reason: 'unknown',
      message: expect.stringMatching(/^etcd is not ready: .*NOSPACE/),
    });
    await service.acquire('b', { waitMs: 0 });
    expect(fences).not.toContain(true);
  });

  it('keeps a session whose lease one member does not know while etcd has its key', async () => {
    const keys = new FakeKeys(() => 7);
    let asked = 0;
    const LeaseKeepAlive = () => ({ header: { revision: 1, raftTerm: 7 }, TTL: asked++ < 2 ? 0 : 3 });
    const service = await openOn({ ...healthy(keys), LeaseKeepAlive }, 3000);
    const lock = await service.acquire('a', { waitMs: 0 });
    await until(() => asked > 3);
    expect(lock.signal.aborted).toBe(false);
    expect(await lock.release()).toBe('released');
  });

  it.each<[string, string, { connections: number; tokens: number }]>([
    [
      'gets another token when its watch is refused for the old one',
      'rpc error: code = Unauthenticated desc = etcdserver: invalid auth token',
      { connections: 2, tokens: 2 },
    ],
    [
      'keeps its connection when its watch is refused for missing rights',
      'rpc error: code = PermissionDenied desc = etcdserver: permission denied',
      { connections: 1, tokens: 1 },
    ],
  ])('%s', async (_, cancelReason, expected) => {
    const counts = { connections: 0, tokens: 0 };
    let watches = 0;
    fake = await FakeEtcd.start({
      ...healthy(new FakeKeys(() => 7)),
      Authenticate: () => ({ token: `token ${counts.tokens++}` }),
      Status: () => ({ version: '3.4.23', leader: counts.connections++ + 1 }),
      Watch: () => (watches++ === 0 ? { created: true, canceled: true, cancelReason } : { created: true }),
    });
    const service = openServiceOn(etcdStore(fake.address, { auth: { user: 'app', password: 'secret' } }));
    // A new connection may cut it off.
    await service.acquire('a', { waitMs: 0 }).catch(() => undefined);
    await until(() => watches === 2);
    expect(counts).toEqual(expected);
  });

  it('counts a keep-alive only when its leader was still the leader afterwards', async () => {
    let term = 7;
    const keys = new FakeKeys(() => term);
    const service = await openOn(
      {
        // A leader that is cut off renews leases by itself. The others have elected another.
        ...healthy(keys),
      },
      3000,
    );
    const lock = await service.acquire('a', { waitMs: 0 });
    await new Promise((resolve) => setTimeout(resolve, 4000));
    expect(lock.signal.aborted).toBe(false);
    term = 8;
    expect(await elapsed(untilAborted(lock.signal))).toBeLessThan(6000);
  });
});
