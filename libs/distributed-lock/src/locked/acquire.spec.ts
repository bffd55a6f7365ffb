import { describe, expect, it } from '@jest/globals';
import { LockService } from '../lock/lock.service.js';
import { memoryStore } from '../stores/memory/memory.store.js';
import { acquireOrFallBack, type LockedCall } from './acquire.js';
import { Departure } from './departure.js';

describe('a call that may leave the queue', () => {
  const [given, byDefault] = [new AbortController(), new AbortController()];
  const stop = { 'its own signal': given, "the module's default": byDefault };

  it.each(Object.entries(stop))('leaves it by %s, and by its departure', async (name, controller) => {
    const service = new LockService({ store: memoryStore(), defaults: { signal: byDefault.signal } });
    const departure = new Departure();
    const held = await service.acquire('a', { signal: new AbortController().signal });
    const call = controller === given ? { signal: given.signal } : {};
    const asking: LockedCall = {
      plan: { options: {}, call, where: 'A.a' },
      argsFor: () => [],
      fallBack: () => undefined,
      keys: () => 'a',
      service: () => service,
    };
    const waits = [departure, new Departure()].map(async (it) => acquireOrFallBack(asking, it));
    departure.leave('gone');
    controller.abort(name);
    expect(await Promise.allSettled(waits)).toMatchObject([{ reason: 'gone' }, { reason: name }]);
    await held.release();
    await service.close();
  });
});
