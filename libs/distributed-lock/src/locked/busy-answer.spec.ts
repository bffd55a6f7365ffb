import { describe, expect, it } from '@jest/globals';
import { callOptions, leavingBy } from './busy-answer.js';
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

  it('of a call that may leave, ends the wait by the given signal as well', () => {
    const [controller, departure] = [new AbortController(), new Departure()];
    const { signal } = leavingBy(departure, { signal: controller.signal });
    controller.abort('stop');
    expect([signal?.aborted, signal?.reason]).toEqual([true, 'stop']);
  });
});
