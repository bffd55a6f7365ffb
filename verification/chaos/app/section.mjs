import { setTimeout as pause } from 'node:timers/promises';
import { now } from '../now.mjs';

const STEP_MS = 40;

/**
 * The work of an app while it holds a lock: it reads, and writes what it has read plus one, until its time is over or it does
 * not believe in its lock any more. After a loss it writes once more, as careless code would.
 *
 * @param {import('nestjs-distributed-lock').Lock} lock
 * @param {{ app: string, call: string, key: string, lengthMs: number, mode: string,
 *   owners: import('./owners.mjs').Owners, witness: { ask(what: string, request: object): Promise<any> },
 *   record: (type: string, details?: object) => void }} context
 */
export async function section(lock, { app, call, key, lengthMs, mode, owners, witness, record }) {
  const token = lock.tokenOf(key);
  const onTold = () => record('told', { call, key, reason: lock.signal.reason.reason });
  const enteredAt = believedAt(lock);
  record('entered', { call, key, token, mode, owner: owners.ownerOf(key, token), believedAt: enteredAt });
  lock.signal.addEventListener('abort', onTold, { once: true });
  const ask = (what, more) => witness.ask(what, { app, call, key, token, mode, ...more });
  let lastBelievedAt = enteredAt;
  let { accepted, value } = await ask('read', { believedAt: enteredAt });
  const endsAt = now() + lengthMs;
  do {
    const at = believedAt(lock);
    if (at === null || !accepted) break;
    lastBelievedAt = at;
    if (mode === 'exclusive') ({ accepted } = await ask('write', { value: ++value, believedAt: at }));
    await pause(Math.min(STEP_MS, Math.max(0, endsAt - now())));
  } while (now() < endsAt);
  const at = believedAt(lock);
  if (at === null && mode === 'exclusive') await ask('write', { value: ++value, believedAt: null });
  await ask('leave');
  lock.signal.removeEventListener('abort', onTold);
  record('left', { call, key, believedAt: at ?? lastBelievedAt, believes: at !== null });
}

/** The time is taken first: whoever is frozen in between has believed in its lock no later than that. */
function believedAt(lock) {
  const at = now();
  return lock.validForMs > 0 && !lock.signal.aborted ? at : null;
}
