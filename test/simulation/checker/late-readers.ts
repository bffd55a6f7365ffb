import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';
import { haveFelt, havePaused, processesOf } from '../history/felt.js';
import { grouped, idOf } from './grouped.js';

/** A process that holds for readers is told that a writer waits. */
const TURNS = 3;
/** What happened before may still be felt while connections are replaced. */
const REPAIR_MS = 5000;

/**
 * docs/guarantees.md, liveness: once others wait, the readers of a process that holds do not go on entering. So while nothing is
 * disturbed no reader that asked clearly later than a writer is let in before it, whatever process it is of.
 */
export function checkLateReaders(history: History, handOffMs: number): readonly Violation[] {
  const holdsOf = grouped(history.holds, ({ key }) => [key]);
  const callOf = new Map(history.calls.map((call) => [idOf(call), call]));
  return history.calls.flatMap((writer) => {
    const [key = ''] = writer.keys;
    if (!writer.isForWriter || writer.keys.length > 1 || writer.isCrashed || writer.waitMs === 0) return [];
    const knownAt = writer.askedAt + TURNS * handOffMs;
    const before = (writer.settledAt ?? history.endedAt) - handOffMs;
    const holds = holdsOf.get(key) ?? [];
    const isLate = (it: HoldRecord): boolean => {
      const asked = callOf.get(idOf(it))?.askedAt ?? it.from;
      return it.claim === 'shared' && asked > knownAt && it.from < before && !it.call.includes('.');
    };
    const reader = holds.find(isLate);
    if (!reader || !holdReadersAlone(history, holds, writer, reader) || isDisturbed(history, writer, reader))
      return [];
    const text = `call ${reader.call} of ${reader.process} reads ${key}, and call ${writer.call} of ${writer.process} has waited for ${Math.round(reader.from - writer.askedAt)} ms to write`;
    return [{ rule: 'order', text }];
  });
}

/** Who waits behind a writer of its own process joins the queue of the store when that has ended. */
function holdReadersAlone(
  { endedAt: end }: History,
  holds: readonly HoldRecord[],
  { askedAt }: CallRecord,
  { from }: HoldRecord,
): boolean {
  return holds.every((it) => it.claim === 'shared' || it.from > from || (it.endedAt ?? end) < askedAt);
}

function isDisturbed(history: History, { askedAt, keys }: CallRecord, { from: to }: HoldRecord): boolean {
  const processes = processesOf(history, keys[0] ?? '', to);
  return (
    havePaused(history, processes, { from: askedAt - REPAIR_MS, to }) ||
    haveFelt(history, processes, { from: askedAt, to }) ||
    history.tooFewReplicas.some((at) => at <= to && at + REPAIR_MS >= askedAt)
  );
}
