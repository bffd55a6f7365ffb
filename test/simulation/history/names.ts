import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Actor } from './stage.js';

/** What the store calls a key of the services of this process. Records have these names, so that processes are judged by what they share. */
export function nameOf(actor: Actor, key: string): string {
  return prefixOf(actor) + key;
}

/** The key by which the services of this process ask for it. */
export function keyOf(actor: Actor, name: string): string {
  return name.slice(prefixOf(actor).length);
}

export function prefixOf({ services }: Pick<Actor, 'services'>): string {
  return (services[0] as LockService).options.keyPrefix;
}
