import { unlessAborted } from '../../async-context/abort-listeners.js';
import type { Hold } from '../context/hold.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from '../runtime/lock-runtime.js';
import { LockStoreError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import type { Owner } from '../owner/owner.js';

/** The keys were not acquired in one step. `busyKey` is held or waited for, if the store has named one. */
export interface NotTogether {
  readonly busyKey: string | undefined;
}

/**
 * Acquires several keys in one step of the store, if all of them are free. Otherwise each owner has ended.
 *
 * @param queues one for each request; all requests have the same deadline and signal
 * @returns `NotTogether` when a key is in use, when the store cannot acquire these keys together, or when the store has
 * failed and the caller still waits
 * @throws LockStoreError when the store has failed and the caller does not wait any more; or the reason of the signal
 */
export async function acquireFreeKeys(
  runtime: LockRuntime,
  requests: readonly [LockRequest, ...LockRequest[]],
  queues: readonly LocalQueue[],
): Promise<readonly Hold[] | NotTogether> {
  const { clock, emit, nextCall } = runtime;
  const waitingSince = clock.now();
  const [{ waitMs, signal }] = requests;
  const owners = requests.map((request, i) => (queues[i] as LocalQueue).openOwner(request));
  const asking = takeTogether(runtime, owners, waitingSince + waitMs);
  const nameCall = ({ key }: LockRequest): number => {
    const call = nextCall();
    emit({ type: 'asked', call, key });
    return call;
  };
  try {
    const refused = await (signal ? unlessAborted(signal, asking) : asking);
    if (refused) return refused;
    return owners.map((owner, i) => {
      const request = requests[i] as LockRequest;
      return owner.enter({ call: nameCall(request), request, waitingSince });
    });
  } catch (error) {
    asking.then(
      (refused) => !refused && giveUp(owners, true),
      () => undefined,
    );
    for (const request of requests) {
      const call = nameCall(request);
      const waitedMs = clock.now() - waitingSince;
      emit({ type: 'abandoned', call, key: request.key, waitedMs, error });
    }
    throw error;
  }
}

/** @returns `undefined` once each owner has a valid grant; otherwise each owner has ended */
async function takeTogether(
  { clock, store }: LockRuntime,
  owners: readonly Owner[],
  deadline: number,
): Promise<NotTogether | undefined> {
  try {
    const reply = await store.acquireAll?.(owners.map((owner) => owner.requestOnce()));
    if (!reply || 'key' in reply) {
      giveUp(owners, false);
      return { busyKey: reply?.key };
    }
    const areValid = owners.map((owner, i) => owner.takeGrant(reply[i]!));
    if (!areValid.includes(false)) return undefined;
    giveUp(owners, true);
  } catch (error) {
    giveUp(owners, !(error instanceof LockStoreError) || error.reason === 'unknown');
    if (clock.now() >= deadline) throw error;
  }
  return { busyKey: undefined };
}

function giveUp(owners: readonly Owner[], mayHold: boolean): void {
  for (const owner of owners) owner.giveUp(mayHold);
}
