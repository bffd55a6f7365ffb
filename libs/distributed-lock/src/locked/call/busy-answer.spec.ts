import { describe, expect, it } from '@jest/globals';
import { LockService } from '../../lock/lock.service.js';
import { memoryStore } from '../../stores/memory/memory.store.js';
import { acquireFor, callOptions } from './busy-answer.js';
import { Departure } from './departure.js';

describe('what the service is told of the options of @Locked', () => {
  it('is every option of a call, readers and permits included, and nothing else', () => {
    const { signal } = new AbortController();
    const call = { waitMs: 1, leaseMs: 20, permits: 3, weight: 2, fair: true, holdAtLeastMs: 10, signal };
    expect(callOptions({ ...call, onBusy: 'skip', onLost: 'ignore', service: 'other' })).toEqual(call);
    expect(callOptions({ mode: 'shared' })).toEqual({ mode: 'shared' });
  });

  it('leaves out what is not given, so that the defaults of the module hold', () => {
    expect(Object.keys(callOptions({ mode: undefined, waitMs: 1 }))).toEqual(['waitMs']);
  });
});

describe('a call that may leave the line', () => {
  const [given, byDefault] = [new AbortController(), new AbortController()];
  const stop = { 'its own signal': given, "the module's default": byDefault };

  it.each(Object.entries(stop))('leaves it by %s, and by its departure', async (name, controller) => {
    const service = new LockService({ store: memoryStore(), defaults: { signal: byDefault.signal } });
    const departure = new Departure();
    const held = await service.acquire('a', { signal: new AbortController().signal });
    const call = controller === given ? { signal: given.signal } : {};
    const waits = [departure, new Departure()].map((it) => acquireFor(it, service, 'a', call));
    departure.leave('gone');
    controller.abort(name);
    expect(await Promise.allSettled(waits)).toMatchObject([{ reason: 'gone' }, { reason: name }]);
    await held.release();
    await service.close();
  });
});
