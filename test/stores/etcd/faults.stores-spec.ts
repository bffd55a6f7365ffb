import { expect, it } from '@jest/globals';
import { LockLostError, type LockService } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { until } from '#until';
import { elapsed, failureOf, holdAndWait, untilAborted } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../../support/patient.js';
import { describeCrowd } from '../support/crowd.contract.js';
import { describeFaults } from '../support/faults.contract.js';
import { ownEtcd } from './support/own-etcd.js';

const COMMAND_MS = 1000;
const SLACK_MS = 900;

describeWith('etcd')('a service on etcd, when something fails', () => {
  const etcd = ownEtcd();

  const works = (service: LockService) => service.withLock(etcd.key, { waitMs: 5000 }, () => undefined);

  describeFaults({
    product: 'etcd',
    get server() {
      return etcd.server;
    },
    get key() {
      return etcd.key;
    },
    open: () => etcd.openReady(etcd.proxied),
    disconnect: () => etcd.proxy.open.forEach((link) => link.reset()),
    nowhere: etcdStore('127.0.0.1:1'),
  });

  it('hears at once that its lease was revoked, and goes on under another', async () => {
    const service = await etcd.openReady();
    const lock = await service.acquire(etcd.key);
    const { id, lease } = await etcd.session();
    const told = untilAborted(lock.signal);
    await etcd.gateway.revoke(lease);
    expect(await elapsed(told)).toBeLessThan(COMMAND_MS + SLACK_MS);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    await works(service);
    expect((await etcd.session()).id).not.toBe(id);
  });

  it('hears by its next step that its presence was deleted, and leaves nothing under the old lease', async () => {
    const service = await etcd.openReady();
    const lock = await service.acquire(etcd.key);
    const { id, lease } = await etcd.session();
    await etcd.gateway.remove(`${etcd.root}s/${id}`);
    const told = untilAborted(lock.signal);
    await service.withLock(`${etcd.key}:other`, { waitMs: 5000 }, () => undefined).catch(() => undefined);
    expect(await elapsed(told)).toBeLessThan(COMMAND_MS + SLACK_MS);
    await works(service);
    await until(async () => (await etcd.list()).every((entry) => entry.lease !== lease));
  });

  it('gets messages again when its mailbox was deleted', async () => {
    const [holder, service] = [await etcd.openReady(), await etcd.openReady()];
    const { lock, waiting } = await holdAndWait(holder, service, etcd.key);
    const before = await etcd.list('m/');
    await etcd.gateway.remove(`${etcd.root}m/`);
    await until(async () => (await etcd.list('m/')).length === before.length);
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
    await (await waiting).release();
  });

  it('grants nobody by a take that etcd executes after its release', async () => {
    const service = await etcd.openReady(etcd.proxied);
    const { epoch } = await etcd.session();
    const [link] = etcd.proxy.open;
    link!.requests.hold();
    const asked = failureOf(service.acquire(etcd.key, { waitMs: 0 }));
    await until(() => link!.requests.heldBytes > 100);
    // What the client sends to take the request back is lost.
    link!.requests.loses = () => true;
    expect(await asked).toMatchObject({ reason: 'unknown' });
    // The release goes on over a new connection until it is certain.
    await until(async () => (await etcd.session()).epoch > epoch);
    const before = (await etcd.gateway.counts())['Txn'] as number;
    link!.requests.loses = () => false;
    link!.deliverLate();
    await until(async () => ((await etcd.gateway.counts())['Txn'] as number) > before);
    const after = await etcd.gateway.revision();
    await works(service);
    await etcd.untilFree(etcd.key);
    // A take and a release of this test's own, and nothing of the late one in between.
    expect((await etcd.gateway.revision()) - after).toBe(2);
  });

  it('tells an outcome that it does not know by its kind, and repeats what was certainly not sent', async () => {
    const service = await etcd.openReady(etcd.proxied);
    const [link] = etcd.proxy.open;
    link!.replies.hold();
    const asked = failureOf(service.acquire(etcd.key, { waitMs: 0 }));
    await until(() => link!.replies.heldBytes > 0);
    link!.reset();
    expect(await asked).toMatchObject({ code: 'LOCK_STORE', reason: 'unknown' });
    await works(service);
  });

  it('misses nothing when what it has not seen yet was compacted', async () => {
    const holder = await etcd.openReady();
    const service = await etcd.openReady(etcd.proxied);
    const { lock, waiting } = await holdAndWait(holder, service, etcd.key);
    for (const link of etcd.proxy.open) link.replies.hold();
    await lock.release();
    await works(holder).catch(() => undefined);
    await etcd.gateway.compact();
    for (const link of etcd.proxy.open) link.reset();
    expect(await elapsed(waiting)).toBeLessThan(1000 + 2 * COMMAND_MS + SLACK_MS);
    await (await waiting).release();
    // Messages come again.
    const { lock: again, waiting: next } = await holdAndWait(holder, service, etcd.key);
    await again.release();
    expect(await elapsed(next)).toBeLessThan(SLACK_MS);
    await (await next).release();
  });

  it('tells the holder of a document that was deleted by hand that its lock is lost', async () => {
    const service = await etcd.openReady(etcd.url, {}, { watchdogTimeoutMs: 3000 });
    const lock = await service.acquire(etcd.key);
    await etcd.gateway.remove(`${etcd.root}l/${etcd.key}`);
    await untilAborted(lock.signal);
    expect(lock.signal.reason).toMatchObject({ reason: 'taken' });
    await works(service);
  });

  it('frees the key of a process that was killed when its session is over', async () => {
    const options = { watchdogTimeoutMs: 3000 };
    const dead = await etcd.openReady(etcd.proxied, {}, options);
    const service = await etcd.openReady(etcd.url, {}, options);
    await dead.acquire(etcd.key);
    etcd.proxy.targetPort = 1;
    for (const link of etcd.proxy.open) link.vanish();
    const ms = await elapsed(works(service));
    expect(ms).toBeGreaterThan(1000);
    expect(ms).toBeLessThan(3000 + 2000 + SLACK_MS);
  });
});

describeWith('etcd')('clients that all want one key in etcd', () => {
  const etcd = ownEtcd();
  describeCrowd(
    () => etcd.open(etcd.url, PATIENT),
    () => etcd.key,
    { fair: true },
  );
});

describeWith('etcd')('a service on an etcd whose database is full', () => {
  const etcd = ownEtcd({ settings: { 'quota-backend-bytes': 16 * 1024 * 1024 } });

  it('says what to do, can still release, and goes on when there is room', async () => {
    const service = await etcd.openReady();
    const lock = await service.acquire(etcd.key);
    const fill = async () => {
      for (let i = 0; i < 30; i++) await etcd.gateway.put('other', 'x'.repeat(1_000_000));
    };
    expect(await failureOf(fill())).toMatchObject({ message: expect.stringContaining('space exceeded') });
    await until(async () => (await etcd.gateway.alarms()).length > 0);
    // Without a session there is no lock.
    const late = etcd.open();
    expect(await failureOf(late.acquire(`${etcd.key}:other`, { waitMs: 0 }))).toMatchObject({
      reason: 'unready',
      message: expect.stringMatching(/NOSPACE.*defrag.*--auto-compaction-retention/),
    });
    expect(await lock.release()).toBe('released');
    await etcd.untilFree(etcd.key);
    await etcd.gateway.compact();
    await etcd.gateway.call('maintenance/defragment');
    for (const alarm of await etcd.gateway.alarms()) await etcd.gateway.disarm(alarm);
    await late.withLock(etcd.key, { waitMs: 5000 }, () => undefined);
  });
});
