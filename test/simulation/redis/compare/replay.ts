import { createHash } from 'node:crypto';
import { timeArguments, withPinnedTime } from './pinned-time.js';
import type { TwoServers } from './two-servers.js';

/** A command that a server was sent, or the end of a connection. */
export interface Sent {
  readonly client: number;
  readonly words: readonly string[] | 'left';
  /** The server's clock. */
  readonly micros: number;
}

/**
 * What two servers cannot answer alike: their state and their clock, and how long they wait for replicas. The simulated one does not
 * know `SCAN`, so that a list is refused there.
 */
const NOT_COMPARED = /^(info|time|wait|scan)$/i;

/** Sends two servers what a simulated one was sent, in that order and with its clock. */
export class Replay {
  private readonly pinned = new Map<string, string>();

  constructor(private readonly servers: TwoServers) {}

  async send({ client, words, micros }: Sent): Promise<void> {
    const { servers } = this;
    servers.pass(micros - servers.micros);
    if (words === 'left') return servers.leave(client);
    if (!NOT_COMPARED.test(words[0] as string)) await servers.send(client, this.withPinnedTime(words));
  }

  private withPinnedTime(words: readonly string[]): readonly string[] {
    const [name = '', second = '', ...rest] = words;
    const shas = rest.map((sha) => this.pinned.get(sha) ?? sha);
    const time = timeArguments(this.servers.micros);
    switch (name.toLowerCase()) {
      case 'script':
        return second.toLowerCase() === 'load'
          ? [name, second, this.pin(rest[0] as string)]
          : [name, second, ...shas];
      case 'evalsha':
        return [name, this.pinned.get(second) ?? second, ...rest, ...time];
      case 'eval':
        return [name, this.pin(second), ...rest, ...time];
      default:
        return words;
    }
  }

  private pin(source: string): string {
    // A script that asks for no time is run as it is.
    if (!source.includes("redis.call('TIME')")) return source;
    const pinned = withPinnedTime(source);
    this.pinned.set(shaOf(source), shaOf(pinned));
    return pinned;
  }
}

function shaOf(source: string): string {
  return createHash('sha1').update(source, 'latin1').digest('hex');
}
