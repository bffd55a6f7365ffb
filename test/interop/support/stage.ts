import { describe } from '@jest/globals';
import { Redis } from 'ioredis';
import { until } from '#until';
import { Peer, type PeerOptions, type Side } from './peer.js';

/** Skips where there is no Java; the global set-up has said so. */
export const describeBesideJava: typeof describe | typeof describe.skip = process.env['INTEROP_JAVA']
  ? describe
  : describe.skip;

/** Each side once as the first, and once as the second. */
export const BOTH_WAYS: readonly (readonly [Side, Side])[] = [
  ['java', 'nest'],
  ['nest', 'java'],
];

/** Processes of both sides on one Redis, or on the nodes of a cluster, and clients that look on. */
export class Stage {
  readonly nodes: readonly Redis[];
  /** All that was said on plain channels of Redisson: `channel message`. */
  readonly heard: string[] = [];
  private readonly ears: Redis;
  private readonly peers: Peer[] = [];

  constructor(private readonly options: PeerOptions) {
    const [first = '', ...others] = options.nodes ?? [options.url as string];
    this.nodes = [first, ...others].map((url) => new Redis(url));
    this.ears = new Redis(first);
    this.ears.on('pmessage', (_pattern: string, channel: string, message: string) =>
      this.heard.push(`${channel} ${message}`),
    );
    void this.ears.psubscribe('redisson*');
  }

  /** The server, where it is one. */
  get redis(): Redis {
    return this.nodes[0] as Redis;
  }

  async start(side: Side, more: Partial<PeerOptions> = {}): Promise<Peer> {
    const peer = await Peer.start(side, { ...this.options, ...more });
    this.peers.push(peer);
    return peer;
  }

  /** What processes have complained about: the reason for a message that could not be read would be here. */
  get complaints(): string {
    return this.peers.map(({ complaints }) => complaints).join('');
  }

  /** How many listen for the release of `name`: on a cluster through sharded channels, as Redisson does there. */
  async listeners(name: string, channel = 'redisson_lock__channel'): Promise<number> {
    const count = this.options.nodes ? 'SHARDNUMSUB' : 'NUMSUB';
    const counts = await Promise.all(
      this.nodes.map(
        (node) => node.call('PUBSUB', count, `${channel}:{${name}}`) as Promise<[string, number]>,
      ),
    );
    return counts.reduce((sum, [, listening]) => sum + listening, 0);
  }

  async untilListening(name: string, channel?: string): Promise<void> {
    await until(async () => (await this.listeners(name, channel)) > 0);
  }

  async untilNobodyListens(name: string, channel?: string): Promise<void> {
    await until(async () => (await this.listeners(name, channel)) === 0);
  }

  async close(): Promise<void> {
    await Promise.all(this.peers.map((peer) => peer.kill()));
    for (const client of [...this.nodes, this.ears]) client.disconnect();
  }
}
