import { describe, expect, it } from '@jest/globals';
import { filter, map } from 'rxjs';
import { memoryStore } from '../../memory/store.js';
import type { LockEvent } from './lock.events.js';
import { LockService } from '../lock.service.js';

const fail = (): never => {
  throw new Error('a listener of no use');
};

describe('a listener that throws', () => {
  it.each<[string, (service: LockService) => void]>([
    ['a function', (service) => service.events$.subscribe(fail)],
    ['an object', (service) => service.events$.subscribe({ next: fail })],
    ['behind operators', (service) => service.events$.pipe(filter(Boolean), map(String)).subscribe(fail)],
    ['an operator', (service) => service.events$.pipe(map(fail)).subscribe()],
  ])(
    'hurts neither locks nor the process nor other listeners, and is told by event: %s',
    async (_, listen) => {
      const service = new LockService({ store: memoryStore() });
      const events: LockEvent[] = [];
      listen(service);
      service.events$.subscribe((event) => events.push(event));
      expect(await service.withLock('k', () => 'done')).toBe('done');
      await service.close();
      await new Promise((resolve) => setImmediate(resolve));
      expect(events.map(({ type }) => type)).toEqual(
        expect.arrayContaining(['asked', 'acquired', 'released', 'error']),
      );
      expect(events).toContainEqual(expect.objectContaining({ type: 'error', during: 'listener' }));
    },
  );
});
