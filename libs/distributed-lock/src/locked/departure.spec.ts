import { describe, expect, it } from '@jest/globals';
import { Departure } from './departure.js';

const events = (departure: Departure): string[] => {
  const log: string[] = [];
  departure.addEventListener('abort', ({ type }) => log.push(`listener ${type}`));
  departure.onabort = ({ type }) => log.push(`property ${type}`);
  return log;
};

describe('a departure', () => {
  it('is told to whoever listens as by an AbortSignal, once and with its first reason', () => {
    const departure = new Departure();
    const log = events(departure);
    departure.leave('first');
    departure.leave('second');
    expect(log.toSorted()).toEqual(['listener abort', 'property abort']);
    expect([departure.aborted, departure.reason]).toEqual([true, 'first']);
    expect(() => departure.throwIfAborted()).toThrow('first');
  });

  it('without a reason has that of an AbortController', () => {
    const departure = new Departure();
    departure.leave();
    expect(departure.reason).toMatchObject({ name: 'AbortError' });
  });

  it('does nothing once the wait is over', () => {
    const departure = new Departure();
    const log = events(departure);
    departure.end();
    departure.leave('late');
    expect(log).toEqual([]);
    expect(departure.aborted).toBe(false);
    expect(() => departure.throwIfAborted()).not.toThrow();
  });

  it('follows another signal for its reason, also one that has aborted before', () => {
    const [controller, departure, late] = [new AbortController(), new Departure(), new Departure()];
    departure.follow(controller.signal);
    controller.abort('stop');
    late.follow(controller.signal);
    expect([departure.reason, late.reason]).toEqual(['stop', 'stop']);
  });

  it('leaves nothing behind on what it followed, however it ends', () => {
    const listeners = new Set<unknown>();
    const signal = {
      aborted: false,
      addEventListener: (_type: string, listener: unknown) => listeners.add(listener),
      removeEventListener: (_type: string, listener: unknown) => listeners.delete(listener),
    } as unknown as AbortSignal;
    const [left, served] = [new Departure(), new Departure()];
    for (const departure of [left, served]) departure.follow(signal);
    expect(listeners.size).toBe(2);
    left.leave();
    served.end();
    expect(listeners.size).toBe(0);
  });
});
