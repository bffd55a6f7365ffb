import { LockService } from 'nestjs-distributed-lock';
import { storeOf } from '../app/stores.mjs';
import { COMMAND_MS } from '../constants.mjs';

/**
 * The keys that are locked, as an unchanged library reports them, also in a trial of a mutant.
 *
 * @param {any} target see storeOf @param {readonly string[]} keys
 */
export async function heldOn(target, keys) {
  const service = await patientService(target);
  try {
    const found = await Promise.all(keys.map((key) => service.inspect(key)));
    return found.flatMap((lock) => (lock ? [{ name: lock.key, remainingMs: lock.remainingMs }] : []));
  } finally {
    await service.close();
  }
}

/** A service of the administrator, past the faulty networks. @param {any} target see storeOf */
export async function patientService(target) {
  return new LockService({ store: await storeOf(target, { commandTimeoutMs: 10 * COMMAND_MS }) });
}
