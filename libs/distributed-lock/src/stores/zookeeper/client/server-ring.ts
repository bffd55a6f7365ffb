import dns from 'node:dns';
import { isIP } from 'node:net';
import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import type { Server } from './connection.js';

/** The addresses of the servers, one after the other. Names are resolved in each round, since their addresses may change. */
export class ServerRing {
  private left: Server[] = [];

  constructor(private readonly options: RingOptions) {}

  async next(): Promise<Server> {
    if (this.left.length === 0) {
      const all = await Promise.all(this.options.servers.map((server) => this.addressesOf(server)));
      this.left = all.flat();
    }
    return this.left.shift() as Server;
  }

  private async addressesOf(server: Server): Promise<readonly Server[]> {
    const { resolve = lookUp, chance, clock, resolveMs } = this.options;
    const { host } = server;
    if (isIP(host) > 0) return [server];
    let cancel = (): void => undefined;
    const late = new Promise<readonly string[]>((done) => {
      cancel = clock.after(resolveMs, () => done([]));
    });
    const addresses = await Promise.race([resolve(host).catch(() => []), late]);
    cancel();
    if (addresses.length === 0) return [server];
    return shuffled(addresses, chance).map((address) => ({ ...server, address }));
  }
}

/** All addresses of a host. */
export type Resolve = (host: string) => Promise<readonly string[]>;

interface RingOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly servers: readonly Server[];
  readonly resolve?: Resolve | undefined;
  /** A name that is not resolved within this time is left to the connection. */
  readonly resolveMs: number;
}

function lookUp(host: string): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    dns.lookup(host, { all: true }, (error, found) => {
      if (error) reject(error);
      else resolve(found.map(({ address }) => address));
    });
  });
}

/** The items in a random order, so that the clients of an ensemble spread over its servers. */
export function shuffled<Item>(items: readonly Item[], chance: Chance): readonly Item[] {
  const all = [...items];
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(chance.random() * (i + 1));
    [all[i], all[j]] = [all[j] as Item, all[i] as Item];
  }
  return all;
}
