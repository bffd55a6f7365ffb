import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { LockLostError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { haveFelt, havePaused, processesOf } from './felt.js';
import type { CallRecord, History, HoldRecord } from './history.js';
import type { Held, Parts } from './stage.js';

/** Tells a holder of others takes a message more than a grant, and a turn of its process. */
const SLACK_MS = 200;

/**
 * The work of a holder that stops as soon as `lock.signal` aborts, or after `ms`.
 *
 * docs/guarantees.md, safety: the signal aborts when the lock is lost, and its reason names the loss. The holder must not believe in
 * its lock any more, or it stops too early.
 */
export async function untilLost(held: Held, ms: number, history: History): Promise<void> {
  const { actor, lock } = held;
  await waitFor(actor.process, ms, (stop) => {
    if (lock.signal.aborted) stop();
    else lock.signal.addEventListener('abort', stop, { once: true });
  });
  if (!lock.signal.aborted) return;
  const reason: unknown = lock.signal.reason;
  const name = `${actor.process.name} stops its work under ${lock.keys.join('+')}`;
  if (!(reason instanceof LockLostError) || !lock.keys.includes(String(reason.key)))
    history.violate('loss', `${name}, and the reason of its signal names no loss of it: ${String(reason)}`);
  if (lock.validForMs > 0 && !isTakenOver(reason))
    history.violate('loss', `${name} by its signal, and believes in its lock`);
}

/**
 * The work of a holder that stops as soon as others wait for its lock, or after `ms`.
 *
 * `lock.contended` must not say so before anybody has asked. While nothing is disturbed, the holder must hear of one that waits
 * within some messages.
 */
export async function untilContended(
  held: Held,
  service: LockService,
  ms: number,
  parts: Parts,
): Promise<void> {
  const { actor, lock } = held;
  const { history, handOffMs } = parts;
  const { process } = actor;
  const beganAt = process.trueNow;
  let events: { unsubscribe(): void } | undefined;
  await waitFor(process, ms, (stop) => {
    events = service.events$.subscribe(({ type, key }) => {
      if (type === 'contended' && lock.keys.includes(String(key)) && lock.contended) stop();
    });
    if (lock.contended) stop();
  });
  events?.unsubscribe();
  const record = held.records.find(({ endedAt }) => endedAt === undefined);
  if (!record || held.records.length > 1 || lock.keys.length > 1) return;
  const name = `call ${record.call} of ${process.name}`;
  if (lock.contended && !mayBeWaitedFor(history, record))
    history.violate('contended', `${name} is told that others wait for ${record.key}, and nobody has asked`);
  const now = process.trueNow;
  const since = Math.max(record.from, beganAt);
  const waiter = lock.contended ? undefined : waiterSince(history, record, now - 2 * handOffMs - SLACK_MS);
  if (!waiter || since > now - 2 * handOffMs - SLACK_MS || lock.validForMs <= 0) return;
  if (record.claim !== 'exclusive' || isDisturbed(history, record.key, { from: waiter.askedAt, to: now }))
    return;
  const waitedMs = Math.round(now - waiter.askedAt);
  history.violate(
    'contended',
    `${name} is not told that call ${waiter.call} of ${waiter.process} has waited for ${record.key} for ${waitedMs} ms`,
  );
}

/** Resolves when `begin` calls back, or after `ms`. */
function waitFor(
  process: Held['actor']['process'],
  ms: number,
  begin: (stop: () => void) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const clear = process.setTimeout(ms, () => resolve());
    begin(() => {
      clear();
      resolve();
    });
  });
}

/** Another call has asked for the key before now. Of those, any may have left an entry in the queue. */
function mayBeWaitedFor({ calls }: History, { call, process, key }: HoldRecord): boolean {
  return calls.some((it) => it.keys.includes(key) && !(it.call === call && it.process === process));
}

/** A call of one key that has waited for it since `at`, and whose flow holds nothing. */
function waiterSince({ calls }: History, { key }: HoldRecord, at: number): CallRecord | undefined {
  return calls.find(
    (it) =>
      it.keys.length === 1 &&
      it.keys[0] === key &&
      it.waitMs > 0 &&
      it.under.length === 0 &&
      it.settledAt === undefined &&
      !it.isCrashed &&
      it.askedAt <= at,
  );
}

/** One of those that have asked for the key was paused, closed or kept from its messages, or a server was. */
function isDisturbed(
  history: History,
  key: string,
  span: { readonly from: number; readonly to: number },
): boolean {
  const processes = processesOf(history, key, span.to);
  return (
    history.drains.some(({ process }) => processes.has(process)) ||
    havePaused(history, processes, span) ||
    haveFelt(history, processes, span)
  );
}

/** Then its lock goes on for the grace. */
function isTakenOver(reason: unknown): boolean {
  return reason instanceof LockLostError && reason.reason === 'takeover';
}
