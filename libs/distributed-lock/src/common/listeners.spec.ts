import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { onAbort, unlessAborted } from './listeners.js';

describe('a signal that many wait by', () => {
  it('has one listener, and tells all of them but those who have stopped listening', () => {
    const controller = new AbortController();
    const told: number[] = [];
    const stops = Array.from({ length: 20 }, (_, i) => onAbort(controller.signal, () => told.push(i)));
    for (const stop of stops.slice(3)) stop();
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    controller.abort();
    expect(told).toEqual([0, 1, 2]);
  });

  it('has none once all have stopped listening, and one again with the next', () => {
    const { signal } = new AbortController();
    const stop = onAbort(signal, () => undefined);
    stop();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    onAbort(signal, () => undefined);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  });
});

describe('work that an abort ends', () => {
  it.each(['before', 'after'])('may reject later, when the signal has aborted %s the call', async (when) => {
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', onUnhandled);
    const caller = new AbortController();
    const reason = new Error('the caller has left');
    let fail = (_error: Error): void => undefined;
    const work = new Promise<never>((_, reject) => (fail = reject));
    if (when === 'before') caller.abort(reason);
    const call = unlessAborted(caller.signal, work);
    if (when === 'after') caller.abort(reason);
    await expect(call).rejects.toBe(reason);
    fail(new Error('late'));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', onUnhandled);
    expect(unhandled).toEqual([]);
  });
});
