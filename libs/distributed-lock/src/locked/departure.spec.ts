import { describe, expect, it } from '@jest/globals';
import { Departure } from './departure.js';

const eventsOf = (departure: Departure): string[] => {
  const log: string[] = [];
  departure.onAbort(() => log.push(`left: ${String(departure.reason)}`));
  return log;
};

describe('a departure', () => {
  it('calls its listeners once, with its first reason', () => {
    const departure = new Departure();
    const log = eventsOf(departure);
    departure.leave('first');
    departure.leave('second');
    expect(log).toEqual(['left: first']);
    expect([departure.aborted, departure.reason]).toEqual([true, 'first']);
  });

  it('calls no listener that has stopped listening', () => {
    const departure = new Departure();
    const stays = eventsOf(departure);
    const goes = (): unknown => stays.push('told');
    departure.onAbort(goes)();
    departure.leave('first');
    expect(stays).toEqual(['left: first']);
  });

  it('without a reason has that of an AbortController', () => {
    const departure = new Departure();
    departure.leave();
    expect(departure.reason).toMatchObject({ name: 'AbortError' });
  });

  it('does nothing once the wait is over', () => {
    const departure = new Departure();
    const log = eventsOf(departure);
    departure.end();
    departure.leave('late');
    expect(log).toEqual([]);
    expect(departure.aborted).toBe(false);
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
    expect(listeners.size).toBe(1);
    left.leave();
    served.end();
    expect(listeners.size).toBe(0);
  });
});
