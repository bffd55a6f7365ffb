import { describe, expect, it } from '@jest/globals';
import { LockDeadlockError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import { DeadlockDetection } from './deadlocks.js';
import type { Hold } from './hold.js';

const claim = { kind: 'exclusive' } as const;
const wait = (key: string) => ({ key, terms: { claim } }) as unknown as LockRequest;
const hold = (key: string) => ({ key, claim, isLive: () => true }) as unknown as Hold;
const forever = () => new Promise<never>(() => undefined);

describe('flows that wait for each other in a circle', () => {
  it('are found at the end of a long chain', async () => {
    const deadlocks = new DeadlockDetection();
    const length = 50_000;
    for (let i = 0; i < length; i++) void deadlocks.watch(wait(`k${i + 1}`), [hold(`k${i}`)], forever);

    const closing = deadlocks.watch(wait('k0'), [hold(`k${length}`)], forever);

    const error: unknown = await closing.catch((failure: unknown) => failure);
    expect(error).toBeInstanceOf(LockDeadlockError);
    const { path } = error as LockDeadlockError;
    expect([path.length, path[0], path.at(-1)]).toEqual([length + 1, 'k0', `k${length}`]);
  });

  it('are told by the shortest way, of which each key once', async () => {
    const deadlocks = new DeadlockDetection();
    const flows: readonly (readonly [string, string])[] = [
      ['a', 'b'],
      ['b', 'c'],
      ['c', 'mine'],
      ['a', 'c'],
    ];
    for (const [held, wanted] of flows) void deadlocks.watch(wait(wanted), [hold(held)], forever);

    await expect(deadlocks.watch(wait('a'), [hold('mine')], forever)).rejects.toMatchObject({
      path: ['a', 'c', 'mine'],
    });
  });

  it('are no deadlock where the chain does not come back', async () => {
    const deadlocks = new DeadlockDetection();
    void deadlocks.watch(wait('b'), [hold('a')], forever);
    void deadlocks.watch(wait('a'), [hold('b')], forever).catch(() => undefined);

    await expect(deadlocks.watch(wait('a'), [hold('other')], async () => 'waited')).resolves.toBe('waited');
  });
});
