import { describe, expect, it } from '@jest/globals';
import type { DynamicModule } from '@nestjs/common';
import fc from 'fast-check';
import { DistributedLockModule, LockDefaults, Locked, memoryStore } from 'nestjs-distributed-lock';
import { MODULE_RULES } from '../../../libs/distributed-lock/src/distributed-lock.module.js';
import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import {
  CALL_RULES,
  resolveLockOptions,
  SERVICE_RULES,
} from '../../../libs/distributed-lock/src/lock/request/lock-options.js';
import { LockRequests } from '../../../libs/distributed-lock/src/lock/request/lock-request.js';
import { resolveLockHttp } from '../../../libs/distributed-lock/src/locked/client-errors.js';
import { siteOf } from '../../../libs/distributed-lock/src/locked/lock-plan.js';
import {
  LOCKED_RULES,
  type LockedOptions,
  optionsOf,
} from '../../../libs/distributed-lock/src/locked/locked.options.js';
import { follow, LockWorld } from '../../support/lock-world.js';

/** A value of each option that is not its default. */
const OTHER: Required<LockedOptions & Pick<CallOptions, 'onBusy'>> = {
  waitMs: 1777,
  maxWaiting: 7,
  leaseMs: 5000,
  mode: 'shared',
  permits: 3,
  weight: 2,
  fair: true,
  reentrant: false,
  holdAtLeastMs: 40,
  site: 'elsewhere',
  signal: new AbortController().signal,
  onQueued: () => undefined,
  onLost: 'ignore',
  name: 'other',
  onBusy: 'takeover',
  graceMs: 50,
  when: () => true,
  stream: true,
  http: { busy: 409 },
};

/** Some options that go together, and others that are there and `undefined`. */
function some(names: object): fc.Arbitrary<{ given: object; left: object }> {
  const all = Object.keys(names) as (keyof typeof OTHER)[];
  return fc.record({ given: fc.subarray(all), left: fc.subarray(all) }).map(({ given, left }) => {
    const isTakeover = given.includes('onBusy');
    const misfits = [
      given.includes('permits') ? 'mode' : 'weight',
      ...(isTakeover ? ['mode', 'permits', 'weight', 'fair', 'maxWaiting'] : ['graceMs']),
    ];
    const fitting = given.filter((name) => !misfits.includes(name));
    const leftOut = left.filter((name) => !fitting.includes(name));
    return {
      given: Object.fromEntries(fitting.map((name) => [name, OTHER[name]])),
      left: Object.fromEntries(leftOut.map((name) => [name, undefined])),
    };
  });
}

function effective(defaults: LockedOptions, options: LockedOptions): LockedOptions {
  @LockDefaults(defaults)
  class Jobs {
    @Locked('k', options)
    async run(): Promise<void> {}
  }
  const site = siteOf(Object.getOwnPropertyDescriptor(Jobs.prototype, 'run')?.value);
  if (!site) throw new Error('@Locked has left nothing');
  return optionsOf(Jobs, site.options);
}

const isRefused = (step: () => unknown): unknown => {
  try {
    return step();
  } catch (error) {
    return (error as Error).message;
  }
};

describe('an option that is undefined counts as left out', () => {
  it('by a call, over the defaults of its service', () => {
    fc.assert(
      fc.property(
        some(CALL_RULES.acquire),
        some(CALL_RULES.acquire),
        ({ given: defaults }, { given, left }) => {
          const request = (call: CallOptions) =>
            isRefused(() =>
              new LockRequests(resolveLockOptions({ store: memoryStore(), defaults })).of('k', call),
            );
          expect(request({ ...given, ...left })).toEqual(request(given));
        },
      ),
    );
  });

  it('by @Locked, over those of @LockDefaults', () => {
    fc.assert(
      fc.property(some(LOCKED_RULES), some(LOCKED_RULES), ({ given: defaults }, { given, left }) => {
        expect(effective(defaults, { ...given, ...left })).toEqual(effective(defaults, given));
      }),
    );
  });

  it.each(Object.keys(CALL_RULES.acquire))(
    'by tryAcquire, which asks once all the same: %s',
    async (name) => {
      const world = new LockWorld();
      const [locks, other] = [world.service(), world.service()];
      const held = await world.take(other, 'k');
      const asked = follow(locks.tryAcquire('k', { [name]: undefined }));
      await world.clock.settle();
      expect(asked.value).toBeNull();
      await held.release();
      await world.close();
    },
  );

  it('by a service', () => {
    const store = memoryStore();
    const left = Object.fromEntries(Object.keys(SERVICE_RULES).map((name) => [name, undefined]));
    expect(resolveLockOptions({ ...left, store })).toEqual(resolveLockOptions({ store }));
  });

  it.each(['busy', 'storeDown', 'lost', 'badKey', 'position'])('by statuses for HTTP: %s', (name) => {
    expect(resolveLockHttp({ [name]: undefined })).toEqual(resolveLockHttp());
  });

  it.each(Object.keys(MODULE_RULES.registration))('by a registration: %s', (name) => {
    const shown = ({ global, exports }: DynamicModule) => ({ global, exports });
    const options = { [name]: undefined };
    expect(shown(DistributedLockModule.forRoot(options))).toEqual(shown(DistributedLockModule.forRoot()));
    const useFactory = () => ({});
    expect(shown(DistributedLockModule.forRootAsync({ useFactory, ...options }))).toEqual(
      shown(DistributedLockModule.forRootAsync({ useFactory })),
    );
  });
});
