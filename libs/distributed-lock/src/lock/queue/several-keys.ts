import { onAbort } from '../../async/abort-listeners.js';
import type { Hold } from '../context/hold.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from '../lock-runtime.js';
import { LockStoreError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import type { Repeated, Grant } from '../../port/lock-store.js';
import type { Owner } from '../owner/owner.js';
import type { OwnerRegistry } from '../owner/owner-registry.js';

/** Why several keys were not taken in one step; the key that is in the way, where it is known. */
export interface NotTogether {
  readonly busyKey: string | undefined;
}

const NOT_TOGETHER: NotTogether = { busyKey: undefined };

/**
 * Takes several keys in one step of the store, if all of them are free.
 *
 * @param lines one for each request
 * @returns `NotTogether` when they have to be taken one by one: one of them is in use, the store cannot take them
 * together, or it has failed and the caller waits
 * @throws LockStoreError when it has failed and the caller does not wait any more; or the reason of the requests' signal
 */
export async function acquireFreeKeys(
  core: LockRuntime,
  owners: OwnerRegistry,
  requests: readonly LockRequest[],
  lines: readonly LocalQueue[],
): Promise<readonly Hold[] | NotTogether> {
  const askedAt = core.clock.now();
  const tenures = requests.map((request, i) => {
    const line = lines[i] as LocalQueue;
    const tenure = owners.open(line, request);
    line.adopt(tenure);
    return tenure;
  });
  // All requests of one call have the same deadline and signal.
  const { waitMs, signal } = requests[0] as LockRequest;
  const asking = grantsOf(core, tenures, askedAt + waitMs);
  try {
    const grants = await unlessAborted(signal, asking);
    if ('busyKey' in grants) return grants;
    return tenures.map((tenure, i) => tenure.enterTogether(grants[i] as Grant & Repeated, askedAt));
  } catch (error) {
    asking.then(
      (grants) => giveUp('busyKey' in grants ? [] : tenures, true),
      () => undefined,
    );
    for (const tenure of tenures) tenure.tellAbandoned(askedAt, error);
    throw error;
  }
}

/** Without all the grants, each tenure has ended. */
async function grantsOf(
  core: LockRuntime,
  tenures: readonly Owner[],
  deadline: number,
): Promise<readonly (Grant & Repeated)[] | NotTogether> {
  try {
    const reply = await core.store.acquireAll?.(tenures.map((tenure) => tenure.askOnce()));
    const isGranted = reply != null && !('key' in reply);
    if (isGranted && tenures.every((tenure, i) => tenure.isGood(reply[i] as Grant))) return reply;
    giveUp(tenures, isGranted);
    return reply && !isGranted ? { busyKey: reply.key } : NOT_TOGETHER;
  } catch (error) {
    giveUp(tenures, !(error instanceof LockStoreError) || error.reason === 'unknown');
    if (core.clock.now() >= deadline) throw error;
    return NOT_TOGETHER;
  }
}

function giveUp(tenures: readonly Owner[], mayHold: boolean): void {
  for (const tenure of tenures) tenure.giveUp(mayHold);
}

/** Settles as `work` does, or rejects with the signal's reason as soon as it aborts. */
function unlessAborted<T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const stopListening = onAbort(signal, () => reject(signal.reason as Error));
    work.then(
      (value) => {
        stopListening();
        resolve(value);
      },
      (error: Error) => {
        stopListening();
        reject(error);
      },
    );
  });
}
