import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { etcdStore, type EtcdStoreOptions } from 'nestjs-distributed-lock/etcd';
import { startEtcdCluster } from '#etcd-server';
import { eventsOf } from '../../support/events.js';
import {
  closeServices,
  elapsed,
  failureOf,
  openServiceOn,
  untilAborted,
} from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownServer } from '../../support/own-server.js';

const COMMAND_MS = 1000;
const SLACK_MS = 900;

type ServiceOptions = Parameters<typeof openServiceOn>[1];

describeWith('etcd')('a service on a cluster of three etcd', () => {
  const cluster = ownServer(startEtcdCluster);
  let key: string;
  beforeEach(async () => {
    key = randomUUID();
    await cluster.untilHealthy();
  });
  afterEach(async () => {
    await closeServices();
    cluster.links.mend();
    for (const member of cluster.members) await member.resume();
  });

  const open = (
    urls: readonly string[] = cluster.members.map(({ url }) => url),
    store: EtcdStoreOptions = {},
    options: ServiceOptions = {},
  ) => openServiceOn(etcdStore(urls, store), options);
  const works = (service: LockService, waitMs = 10_000) => service.withLock(key, { waitMs }, () => 'done');
  const followers = async () => {
    const leader = await cluster.leader();
    return cluster.members.filter((member) => member !== leader);
  };

  it('goes to the next member at once when its own is gone, and keeps its locks', async () => {
    const leader = await cluster.leader();
    const [mine, other] = await followers();
    const service = open([mine!.url, other!.url, leader.url]);
    const events = eventsOf(service);
    const lock = await service.acquire(`${key}:held`);
    await mine!.kill();
    // What was certainly not sent goes to the next member, so no call fails.
    expect(await elapsed(works(service))).toBeLessThan(COMMAND_MS);
    expect(lock.signal.aborted).toBe(false);
    expect(await lock.release()).toBe('released');
    expect(events.filter(({ type }) => type === 'store')).toEqual([]);
    await mine!.restart();
  });

  it('starts on a member that answers when the first of its list does not', async () => {
    const [frozen, other] = await followers();
    await frozen!.pause();
    const service = open([frozen!.url, other!.url]);
    expect(await elapsed(works(service))).toBeLessThan(COMMAND_MS + SLACK_MS);
  });

  it('leaves a member that is frozen within the time of one command', async () => {
    const [frozen, other] = await followers();
    const service = open([frozen!.url, other!.url]);
    // The service sends no request behind one that has no answer yet, and then knows that it was not executed.
    await (await service.acquire(key)).release();
    await frozen!.pause();
    const failure = failureOf(service.acquire(`${key}:other`, { waitMs: 0 }));
    expect(await elapsed(failure)).toBeLessThan(COMMAND_MS + SLACK_MS);
    expect(await failure).toMatchObject({ reason: 'unknown' });
    expect(await elapsed(works(service))).toBeLessThan(COMMAND_MS);
  });

  it('keeps its locks when the leader is killed, and goes on with the next', async () => {
    const service = open();
    const lock = await service.acquire(`${key}:held`);
    const leader = await cluster.leader();
    await leader.kill();
    expect(await works(service)).toBe('done');
    expect(lock.signal.aborted).toBe(false);
    expect(await lock.release()).toBe('released');
    await leader.restart();
  });

  it('is told of a hand-off by a member that was not the one of the holder', async () => {
    const [one, other] = await followers();
    const [holder, next] = [open([one!.url]), open([other!.url])];
    const lock = await holder.acquire(key);
    const waiting = next.acquire(key, { waitMs: 10_000 });
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await lock.release();
    expect(await elapsed(waiting)).toBeLessThan(SLACK_MS);
    await (await waiting).release();
  });

  it('leaves a member that is cut off from the others, also while it only waits', async () => {
    const [mine, other] = await followers();
    const holder = open([other!.url]);
    const service = open([mine!.url, other!.url]);
    const lock = await holder.acquire(key);
    const waiting = service.acquire(key, { waitMs: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 500));
    cluster.links.isolate(mine!.id);
    await new Promise((resolve) => setTimeout(resolve, 2 * COMMAND_MS));
    await lock.release();
    expect(await elapsed(waiting)).toBeLessThan(COMMAND_MS + SLACK_MS);
    await (await waiting).release();
  });

  it('believes in its lock on a member that is cut off until its session is over, and no longer', async () => {
    const options = { watchdogTimeoutMs: 4000 };
    const leader = await cluster.leader();
    const [other] = await followers();
    const cut = open([leader.url], {}, options);
    const service = open([other!.url], {}, options);
    const lock = await cut.acquire(key);
    const lost = untilAborted(lock.signal).then(() => performance.now());
    cluster.links.isolate(leader.id);
    expect(await works(service, 25_000)).toBe('done');
    expect(await lost).toBeLessThan(performance.now());
    expect(lock.signal.aborted).toBe(true);
  });

  it('says that there is no leader when there is none, and goes on when there is one', async () => {
    const service = open();
    await works(service);
    for (const { id } of cluster.members) cluster.links.isolate(id);
    await new Promise((resolve) => setTimeout(resolve, 4000));
    const failure = await failureOf(service.acquire(key, { waitMs: 0 }));
    expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'unready' });
    expect(String(failure)).toMatch(/it has no leader/);
    cluster.links.mend();
    expect(await works(service)).toBe('done');
  });
});
