import { describe, expect, it } from '@jest/globals';
import { callOptions } from './locked.options.js';

describe('the options of @Locked that the service gets', () => {
  it('are all options of a call, mode and permits included, and no others', () => {
    const { signal } = new AbortController();
    const call = { waitMs: 1, leaseMs: 20, permits: 3, weight: 2, fair: true, holdAtLeastMs: 10, signal };
    expect(callOptions({ ...call, onBusy: 'skip', onLost: 'ignore', name: 'other' }, 'Orders.pay')).toEqual({
      ...call,
      onBusy: 'throw',
      site: 'Orders.pay',
    });
    expect(callOptions({ mode: 'shared', site: 'import' }, 'Orders.pay')).toEqual({
      mode: 'shared',
      site: 'import',
    });
  });

  it('have the takeover of a lock among them', () => {
    const takeover = { onBusy: 'takeover', graceMs: 50 } as const;
    expect(callOptions(takeover, 'Orders.pay')).toEqual({ ...takeover, site: 'Orders.pay' });
  });

  it('leave out what is not given, so that the defaults of the module apply', () => {
    expect(Object.keys(callOptions({ mode: undefined, waitMs: 1 }, 'Orders.pay'))).toEqual([
      'site',
      'waitMs',
    ]);
  });
});
