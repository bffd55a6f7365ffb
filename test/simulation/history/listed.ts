import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { LockShutdownError, LockStoreError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { keyOf } from './names.js';
import { mayBeForcedOut, nowOf } from './takeovers.js';
import type { Held, Parts } from './stage.js';

/** Compares `service.held()` with the lock that a flow has: the same key, token and validity. */
export function checkHeld({ actor, lock, records }: Held, service: LockService, { history }: Parts): void {
  if (lock.keys.length > 1) return;
  const record = records.find(({ endedAt }) => endedAt === undefined);
  if (!record) return;
  const key = keyOf(actor, record.key);
  const own = service.held().find((it) => it.key === key && it.fencingToken === record.token);
  const { validForMs } = lock;
  if (own ? Math.abs(own.validForMs - validForMs) < 1 : validForMs === 0) return;
  const text = `call ${record.call} of ${actor.process.name} believes in ${record.key} for ${Math.round(validForMs)} ms, and held() says ${own ? Math.round(own.validForMs) : 'nothing'}`;
  history.violate('belief', text);
}

/** A lock that was held for the whole of a listing is on one of its pages. */
export async function checkList(
  { actor, lock, records }: Held,
  service: LockService,
  { history, backend }: Parts,
): Promise<void> {
  const record = records.find(({ owner }) => owner !== undefined);
  const holders = record && (await listed(service, keyOf(actor, record.key)));
  if (!record || !holders || record.endedAt !== undefined || lock.validForMs <= 0) return;
  // What servers have lost, by force or by a crash, its holder believes in until it is told.
  const isDisturbed = history.disturbances.some(({ kind }) =>
    ['force', 'forget', 'crash server'].includes(kind),
  );
  if (mayBeForcedOut(history, record, nowOf(actor), Infinity)) return;
  if (isDisturbed || backend.servers.length > 1 || holders.has(record.owner as string)) return;
  const names = [...holders].join(', ') || 'nobody';
  history.violate(
    'belief',
    `call ${record.call} of ${actor.process.name} believes in ${record.key} during a list, which names ${names}`,
  );
}

/** @returns the holders on all pages, or `undefined` without an answer */
async function listed(service: LockService, key: string): Promise<ReadonlySet<string> | undefined> {
  const holders = new Set<string>();
  let cursor: string | undefined;
  try {
    do {
      const page = await service.list({ limit: 1, ...(cursor !== undefined && { cursor }) });
      for (const entry of page.entries) if (entry.key === key) entry.holders.forEach((it) => holders.add(it));
      ({ cursor } = page);
    } while (cursor !== undefined);
    return holders;
  } catch (error) {
    if (error instanceof LockStoreError || error instanceof LockShutdownError) return undefined;
    throw error;
  }
}
