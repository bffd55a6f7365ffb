import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Actor, Held, Stage } from './stage.js';

/** A call of a plan, by its name in the history, and the process that makes it. */
export interface Caller {
  readonly stage: Stage;
  readonly actor: Actor;
  readonly label: string;
}

/** Of which service a lock is, so that a nested call of another service is not taken for a share. */
const services = new WeakMap<Lock, LockService>();

export function noteService(lock: Lock, service: LockService): void {
  services.set(lock, service);
}

export function serviceIn(lock: Lock): LockService | undefined {
  return services.get(lock);
}

export function serviceOf(actor: Actor, service: number): LockService {
  return actor.services[service] as LockService;
}

export function isShared(outer: Held, held: Held): boolean {
  return (
    serviceIn(outer.lock) === serviceIn(held.lock) &&
    outer.lock.keys.some((key) => held.lock.keys.includes(key))
  );
}
