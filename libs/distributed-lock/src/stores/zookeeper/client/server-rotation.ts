import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Chance } from '../../../time/chance.js';
import type { Server } from './connection.js';

/** The servers in turn, each time at another of its addresses, because one of them may not answer. */
export class ServerRotation {
  private attempts = 0;
  private firstAddress: number | undefined;

  /** @param resolve finds all addresses of a host; default: as the machine resolves names */
  constructor(
    private readonly servers: readonly Server[],
    private readonly chance: Chance,
    private readonly resolve: Resolve = addressesOf,
  ) {}

  async next(): Promise<Server> {
    const { servers } = this;
    const attempt = this.attempts++;
    const server = servers[attempt % servers.length] as Server;
    if (isIP(server.host) > 0) return server;
    const addresses = await this.resolve(server.host).catch(() => []);
    // The first address is random, so that clients spread over all addresses of a host name.
    this.firstAddress ??= Math.floor(this.chance.random() * addresses.length);
    const round = Math.floor(attempt / servers.length);
    const address = addresses[(this.firstAddress + round) % addresses.length];
    return address === undefined ? server : { ...server, address };
  }
}

export type Resolve = (host: string) => Promise<readonly string[]>;

async function addressesOf(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}
