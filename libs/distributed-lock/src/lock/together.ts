import { Deadlines } from './deadlines.js';
import type { Hold } from './hold.js';
import type { LocalLine } from './local-line.js';
import type { LockCore } from './lock-core.js';
import { LockStoreError } from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import type { Grant } from './lock-store.js';
import type { Tenure } from './tenure.js';
import type { Tenures } from './tenures.js';
import { Waiter } from './waiter.js';

/**
 * Takes several keys in one step of the store, if all of them are free.
 *
 * @param lines one for each request, that nobody of this process uses
 * @returns `undefined` when they have to be taken one by one: one of them is in use, the store cannot take them
 * together, or it has failed and the caller waits
 * @throws LockStoreError when it has failed, or not answered within `waitMs`; or the reason of the requests' signal
 */
export async function acquireTogether(
  core: LockCore,
  owners: Tenures,
  requests: readonly LockRequest[],
  lines: readonly LocalLine[],
): Promise<readonly Hold[] | undefined> {
  const askedAt = core.clock.now();
  const tenures = requests.map((request, i) => {
    const line = lines[i] as LocalLine;
    const tenure = owners.open(line, request);
    line.adopt(tenure);
    return tenure;
  });
  const asking = grantsOf(core, tenures);
  try {
    const grants = await withinPatience(core, requests[0] as LockRequest, asking);
    return grants && tenures.map((tenure, i) => tenure.enterTogether(grants[i] as Grant, askedAt));
  } catch (error) {
    asking.then(
      (grants) => giveUp(grants ? tenures : [], true),
      () => undefined,
    );
    throw error;
  }
}

/** Without all the grants, each tenure has ended. */
async function grantsOf(core: LockCore, tenures: readonly Tenure[]): Promise<readonly Grant[] | undefined> {
  try {
    const grants = await core.store.acquireAll?.(tenures.map((tenure) => tenure.askOnce()));
    if (grants && tenures.every((tenure, i) => tenure.isGood(grants[i] as Grant))) return grants;
    giveUp(tenures, Boolean(grants));
  } catch (error) {
    giveUp(tenures, !(error instanceof LockStoreError) || error.reason === 'unknown');
    if (tenures.every(({ waits }) => !waits)) throw error;
  }
  return undefined;
}

function giveUp(tenures: readonly Tenure[], mayHold: boolean): void {
  for (const tenure of tenures) tenure.giveUp(mayHold);
}

/** All requests of one call have the same deadline and signal. */
function withinPatience<T>(core: LockCore, request: LockRequest, work: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const leave = (waiter: Waiter, error: unknown = notAnswered(request)): void => {
      settle(waiter);
      reject(error as Error);
    };
    const waiter = new Waiter(request, 0, core.clock, () => undefined, reject, { leave });
    const deadlines = new Deadlines(core.alarm, [waiter], (late) => leave(late));
    const settle = (settled: Waiter): void => {
      settled.settle();
      deadlines.stop();
    };
    deadlines.watch(waiter);
    work.then(
      (value) => {
        settle(waiter);
        resolve(value);
      },
      (error: unknown) => leave(waiter, error),
    );
  });
}

function notAnswered({ key, waitMs }: LockRequest): LockStoreError {
  const message = `Could not acquire "${key}" and others within ${waitMs} ms. The store has not answered yet.`;
  return new LockStoreError(message, key, 'unknown');
}
