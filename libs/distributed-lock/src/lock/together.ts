import { onAbort } from './abort-listeners.js';
import type { Hold } from './hold.js';
import type { LocalLine } from './local-line.js';
import type { LockCore } from './lock-core.js';
import { LockStoreError } from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import type { Repeated, Grant } from './lock-store.js';
import type { Tenure } from './tenure.js';
import type { Tenures } from './tenures.js';

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
export async function acquireTogether(
  core: LockCore,
  owners: Tenures,
  requests: readonly LockRequest[],
  lines: readonly LocalLine[],
): Promise<readonly Hold[] | NotTogether> {
  const askedAt = core.clock.now();
  const tenures = requests.map((request, i) => {
    const line = lines[i] as LocalLine;
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
  core: LockCore,
  tenures: readonly Tenure[],
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

function giveUp(tenures: readonly Tenure[], mayHold: boolean): void {
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
