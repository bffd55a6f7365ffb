import type { NodeRedisOptions } from './node-redis.target.js';

/** Where a server is. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** Where clients find the servers that Sentinels or a cluster name. */
export type AddressMap = Readonly<Record<string, Place>> | ((address: string) => Place | undefined);

/**
 * The options of a client, which no method of node-redis returns. `duplicate` passes them to the constructor of the object
 * that it is called on. So this calls `duplicate` on an object whose constructor only keeps them.
 *
 * @returns `undefined` for a version of node-redis whose `duplicate` does not pass the options on
 */
export function givenOptions(target: { duplicate(): unknown }): unknown {
  let found: unknown;
  class Keeper {
    constructor(options: unknown) {
      found = options;
    }
  }
  const prototype = Object.create(target, { constructor: { value: Keeper } }) as object;
  if (typeof target.duplicate === 'function') (Object.create(prototype) as typeof target).duplicate();
  return found;
}

/** The options of a client for one server. */
export function optionsAt(given: NodeRedisOptions | undefined, { host, port }: Place): NodeRedisOptions {
  return { ...given, socket: { ...given?.socket, host, port } };
}

export function addressOf({ host, port }: Place): string {
  return `${host}:${port}`;
}

/** Where a client connects to the server that is called `place`. */
export function mappedPlace(map: AddressMap | undefined, place: Place): Place {
  const address = addressOf(place);
  return (typeof map === 'function' ? map(address) : map?.[address]) ?? place;
}
