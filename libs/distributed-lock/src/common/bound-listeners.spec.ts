import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it, jest } from '@jest/globals';
import { BoundController } from './listeners.js';

const flow = new AsyncLocalStorage<string>();

describe('a listener of a signal whose listeners are bound', () => {
  it('runs in the async context in which it was added', () => {
    const controller = new BoundController();
    const seen: unknown[] = [];
    flow.run('mine', () => controller.signal.addEventListener('abort', () => seen.push(flow.getStore())));
    flow.run('of who aborts', () => controller.abort(new Error('lost')));
    expect(seen).toEqual(['mine']);
  });

  it('that is removed for another phase or another event stays, and can be removed afterwards', () => {
    const controller = new BoundController();
    const { signal } = controller;
    const listener = jest.fn();
    signal.addEventListener('abort', listener);
    signal.removeEventListener('abort', listener, true);
    signal.removeEventListener('other', listener);
    signal.removeEventListener('abort', listener, { capture: false });
    controller.abort(new Error('lost'));
    expect(listener).not.toHaveBeenCalled();
  });

  it('that is added twice runs once', () => {
    const controller = new BoundController();
    const { signal } = controller;
    const listener = jest.fn();
    signal.addEventListener('abort', listener);
    signal.addEventListener('abort', listener, { once: true });
    controller.abort(new Error('lost'));
    expect(listener).toHaveBeenCalledTimes(1);
  });
});
