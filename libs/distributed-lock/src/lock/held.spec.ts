import { describe, expect, it } from '@jest/globals';
import { locks, other, world } from '../../../../test/support/world-per-test.js';
import { LockConfigurationError } from '../port/lock.errors.js';

describe('what a service holds', () => {
  it('is listed with its token, its time and what has asked for it, and no longer once it is released', async () => {
    const lock = await world.take(locks, 'a', { site: 'nightly import' });
    const reader = await world.take(locks, 'b', { mode: 'shared' });
    await world.clock.advance(4000);
    const [a, b, ...others] = locks.held();
    expect(a).toEqual({
      key: 'a',
      mode: 'exclusive',
      owner: (await world.eye.inspect('a'))?.holders[0],
      fencingToken: lock.fencingToken,
      site: 'nightly import',
      since: new Date(world.clock.timeOfDay() - 4000),
      heldMs: 4000,
      validForMs: lock.validForMs,
      leaseMs: 30_000,
      calls: 1,
    });
    expect(b).toMatchObject({ key: 'b', mode: 'shared' });
    expect(b?.site).toMatch(/^acquire\(\) in .+, lock-world\.ts:\d+$/);
    expect(others).toEqual([]);
    await lock.release();
    expect(locks.held().map(({ key }) => key)).toEqual(['b']);
    await reader.release();
    expect(locks.held()).toEqual([]);
  });

  it('counts the nested calls that share a lock, and lists each caller that has a part of its own', async () => {
    await locks.withLock('k', () =>
      locks.withLock('k', () => expect(locks.held()).toMatchObject([{ key: 'k', calls: 2 }])),
    );
    const sites = ['first', 'second'];
    const readers = await Promise.all(
      sites.map((site) => locks.acquire('r', { mode: 'shared', site, waitMs: 1000 })),
    );
    expect(locks.held().map(({ site }) => site)).toEqual(sites);
    await Promise.all(readers.map((reader) => reader.release()));
  });

  it('is nothing before the first call, and costs no command', async () => {
    expect(locks.held()).toEqual([]);
    await world.take(locks, 'k');
    const before = world.commands.length;
    locks.held();
    expect(world.commands).toHaveLength(before);
  });

  it('does not include a lock that was lost', async () => {
    await world.take(locks, 'k');
    await world.eye.forceRelease('k');
    await world.clock.settle();
    expect(locks.held()).toEqual([]);
  });

  it.each([[''], [7], ['x'.repeat(101)]])(
    'is not given a site that no line of a log has room for: %j',
    async (site) => {
      await expect(locks.acquire('k', { site: site as string })).rejects.toThrow(LockConfigurationError);
      await expect(locks.acquire('k', { site: site as string })).rejects.toThrow(
        'site must be a text of 1 to 100',
      );
      expect(() => world.service({ application: site as string })).toThrow(
        'application must be a text of 1 to 100',
      );
    },
  );
});

describe('the client of a service', () => {
  it('is this process, under the name of its application', () => {
    const { client } = world.service({ application: 'shop' });
    expect(client).toEqual({
      application: 'shop',
      host: expect.any(String),
      process: process.pid,
      since: expect.any(Date),
    });
  });

  it('has the name of the nearest package without an option', () => {
    expect(world.service().client.application).toBe('distributed-lock-workspace');
  });
});

describe('isHeld', () => {
  it('is true while anybody holds the key, in whatever way, and false once nobody does', async () => {
    expect(await locks.isHeld('k')).toBe(false);
    const lock = await world.take(other, 'k', { leaseMs: 1000 });
    const reader = await world.take(locks, 'r', { mode: 'shared' });
    expect(await Promise.all(['k', 'r', 'free'].map((key) => locks.isHeld(key)))).toEqual([
      true,
      true,
      false,
    ]);
    await lock.release();
    await reader.release();
    expect(await Promise.all(['k', 'r'].map((key) => locks.isHeld(key)))).toEqual([false, false]);
  });

  it('is false after a lease without a release,', async () => {
    await world.take(other, 'k', { leaseMs: 1000 });
    await world.clock.advance(2000);
    expect(await locks.isHeld('k')).toBe(false);
  });
});

it('lock.owner is the id of the holder in the store, for several keys that of the first', async () => {
  const lock = await world.take(locks, 'k');
  expect([lock.owner]).toEqual((await world.eye.inspect('k'))?.holders);
  await lock.release();
  const both = await world.take(locks, ['b', 'a']);
  expect([both.owner]).toEqual((await world.eye.inspect('b'))?.holders);
  await both.release();
});
