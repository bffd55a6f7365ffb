import { describe, expect, it } from '@jest/globals';
import { LockService } from '../lock/lock.service.js';
import { memoryStore } from '../memory/store.js';
import { acquireOrFallBack, WaitCancellation, type LockedCall } from './acquire.js';

describe('a call that may leave the queue', () => {
  const [given, byDefault] = [new AbortController(), new AbortController()];
  const stop = { 'its own signal': given, "the module's default": byDefault };

  it.each(Object.entries(stop))('leaves it by %s, and by its cancellation', async (name, controller) => {
    const service = new LockService({ store: memoryStore(), defaults: { signal: byDefault.signal } });
    const cancellation = new WaitCancellation();
    const held = await service.acquire('a', { signal: new AbortController().signal });
    const call = controller === given ? { signal: given.signal } : {};
    const asking: LockedCall = {
      plan: { options: {}, call, where: 'A.a' },
      argsFor: () => [],
      fallBack: () => undefined,
      keys: () => ({ keys: 'a' }),
      service,
    };
    const waits = [cancellation, new WaitCancellation()].map(async (it) => acquireOrFallBack(asking, it));
    cancellation.cancel('gone');
    controller.abort(name);
    expect(await Promise.allSettled(waits)).toMatchObject([{ reason: 'gone' }, { reason: name }]);
    await held.release();
    await service.close();
  });
});

const eventsOf = (cancellation: WaitCancellation): string[] => {
  const log: string[] = [];
  cancellation.onAbort(() => log.push(`cancelled: ${String(cancellation.reason)}`));
  return log;
};

describe('a cancellation of a wait', () => {
  it('calls its listeners once, with its first reason', () => {
    const cancellation = new WaitCancellation();
    const log = eventsOf(cancellation);
    cancellation.cancel('first');
    cancellation.cancel('second');
    expect(log).toEqual(['cancelled: first']);
    expect([cancellation.aborted, cancellation.reason]).toEqual([true, 'first']);
  });

  it('calls no listener that has stopped listening', () => {
    const cancellation = new WaitCancellation();
    const stays = eventsOf(cancellation);
    const goes = (): unknown => stays.push('told');
    cancellation.onAbort(goes)();
    cancellation.cancel('first');
    expect(stays).toEqual(['cancelled: first']);
  });

  it('without a reason has that of an AbortController', () => {
    const cancellation = new WaitCancellation();
    cancellation.cancel();
    expect(cancellation.reason).toMatchObject({ name: 'AbortError' });
  });

  it('does nothing once the wait is over', () => {
    const cancellation = new WaitCancellation();
    const log = eventsOf(cancellation);
    cancellation.end();
    cancellation.cancel('late');
    expect(log).toEqual([]);
    expect(cancellation.aborted).toBe(false);
  });

  it('follows another signal for its reason, also one that has aborted before', () => {
    const [controller, cancellation, late] = [
      new AbortController(),
      new WaitCancellation(),
      new WaitCancellation(),
    ];
    cancellation.follow(controller.signal);
    controller.abort('stop');
    late.follow(controller.signal);
    expect([cancellation.reason, late.reason]).toEqual(['stop', 'stop']);
  });

  it('leaves nothing behind on what it followed, however it ends', () => {
    const listeners = new Set<unknown>();
    const signal = {
      aborted: false,
      addEventListener: (_type: string, listener: unknown) => listeners.add(listener),
      removeEventListener: (_type: string, listener: unknown) => listeners.delete(listener),
    } as unknown as AbortSignal;
    const [left, served] = [new WaitCancellation(), new WaitCancellation()];
    for (const cancellation of [left, served]) cancellation.follow(signal);
    expect(listeners.size).toBe(1);
    left.cancel();
    served.end();
    expect(listeners.size).toBe(0);
  });
});
