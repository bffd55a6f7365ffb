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
    Object.assign(faults, { command: () => ({ executedAfterMs: [], answeredAfterMs: 'never' }) });
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
