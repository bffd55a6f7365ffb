import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { eventsOf, typesOf } from '../support/events.js';
import { follow, SessionWorld } from '../support/lock-world.js';

const SESSION_MS = 30_000;

describe('a fixed lease that is longer than the session', () => {
  let world: SessionWorld;
  beforeEach(() => {
    world = new SessionWorld();
  });
  afterEach(() => world.close());

  it('is believed in until its own end while the session is kept alive, and no longer', async () => {
    const service = world.service({ watchdogTimeoutMs: SESSION_MS });
    const events = eventsOf(service);
    const lock = await world.take(service, 'key', { leaseMs: 4 * SESSION_MS });
    for (let ms = 5000; ms < 4 * SESSION_MS - 1500; ms += 5000) {
      await world.clock.advance(5000);
      lock.assertHeld();
      expect(lock.validForMs).toBeLessThanOrEqual(SESSION_MS);
    }
    await world.clock.advance(5000);
    expect(lock.signal.aborted).toBe(true);
    expect(typesOf(events)).toEqual(['acquired', 'lost']);
  });

  it('is lost when the session is in doubt', async () => {
    const faults = {};
    const service = world.service({ watchdogTimeoutMs: SESSION_MS }, faults);
    const lock = await world.take(service, 'key', { leaseMs: 4 * SESSION_MS });
    await world.clock.advance(SESSION_MS);
    expect(lock.validForMs).toBeGreaterThan(0);
    Object.assign(faults, { command: () => ({ executedAfterMs: [], repliedAfterMs: 'never' }) });
    await world.clock.advance(SESSION_MS);
    expect(lock.signal.aborted).toBe(true);
  });

  it('can be made longer than the session, and shorter again', async () => {
    const service = world.service({ watchdogTimeoutMs: SESSION_MS });
    const lock = await world.take(service, 'key', { leaseMs: 5000 });
    await follow(lock.extend(2 * SESSION_MS)).promise;
    await world.clock.advance(1.5 * SESSION_MS);
    lock.assertHeld();
    await follow(lock.extend(1000)).promise;
    await world.clock.advance(1000);
    expect(lock.signal.aborted).toBe(true);
  });

  it.each(['the same', 'another'])('is believed in after it was granted by %s process', async (by) => {
    const service = world.service({ watchdogTimeoutMs: SESSION_MS });
    const other = by === 'another' ? world.service({ watchdogTimeoutMs: SESSION_MS }) : service;
    const before = await world.take(other, 'key');
    const waits = follow(service.acquire('key', { leaseMs: 3 * SESSION_MS, waitMs: 5000 }));
    await world.clock.advance(100);
    void before.release();
    await world.clock.advance(2 * SESSION_MS);
    expect(waits.value.validForMs).toBeGreaterThan(0);
  });

  it('is forgotten when it was released', async () => {
    const service = world.service({ watchdogTimeoutMs: SESSION_MS });
    const lock = await world.take(service, 'key', { leaseMs: 4 * SESSION_MS });
    const released = follow(lock.release());
    await world.clock.advance(SESSION_MS);
    expect([released.value, world.rememberedBy(service)]).toEqual(['released', 0]);
  });
});

describe('a lease that is no longer than the session', () => {
  const KEEP_ALIVE_MS = SESSION_MS / 6;
  let world: SessionWorld;
  beforeEach(() => {
    world = new SessionWorld();
  });
  afterEach(() => world.close());

  it('is believed in for as long as the session is certain, and not only until the next renewal', async () => {
    const service = world.service({ watchdogTimeoutMs: SESSION_MS });
    await world.take(service, 'other', { leaseMs: 1000 });
    // So that each renewal comes just before a keep-alive.
    await world.clock.advance(KEEP_ALIVE_MS - 100);
    const lock = await world.take(service, 'key');
    let least = Infinity;
    for (let ms = 0; ms < 3 * SESSION_MS; ms += 500) {
      await world.clock.advance(500);
      least = Math.min(least, lock.validForMs);
    }
    // The watchdog renews when a third is over. The session alone is certain for longer than what is left then.
    expect(least).toBeGreaterThan((SESSION_MS * 2) / 3 - 1000);
  });

  it('is believed in until its own end, although the session was certain for less when it began', async () => {
    const service = world.service({ watchdogTimeoutMs: SESSION_MS });
    await world.take(service, 'other');
    await world.clock.advance(KEEP_ALIVE_MS - 100);
    const leaseMs = SESSION_MS - 500;
    const lock = await world.take(service, 'key', { leaseMs });
    await world.clock.advance(leaseMs - 1000);
    lock.assertHeld();
    await world.clock.advance(1000);
    expect(lock.signal.aborted).toBe(true);
  });
});
