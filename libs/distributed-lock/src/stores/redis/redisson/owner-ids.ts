import type { Chance } from '../../../time/chance.js';

/** Redisson's client ids are UUIDs of version 4: scripts and clients tell our ids from those of foreign clients by it. */
export function newClientId(chance: Chance): string {
  const uuid = chance.uuid();
  return `${uuid.slice(0, 14)}8${uuid.slice(15)}`;
}

export function isOurs(owner: string): boolean {
  return owner.length > 36 && owner[14] === '8';
}
