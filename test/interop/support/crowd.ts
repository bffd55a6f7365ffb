import { randomUUID } from 'node:crypto';
import type { CrowdThread, Peer } from './peer.js';
import type { Stage } from './stage.js';

/** Many callers of many processes that want the same locks, and the one history of what they did. */
export class Crowd {
  /** Of those processes that ended in order. */
  readonly done: CrowdThread[] = [];
  /** Those that cannot leave any more what they had entered. */
  readonly killed = new Set<string>();
  private readonly key = `history:${randomUUID()}`;
  private readonly ids = new Map<Peer, string>();

  constructor(
    private readonly stage: Stage,
    private readonly options: { readonly names: readonly string[]; readonly holdMs: number },
  ) {}

  /** Sends a process in, with so many threads or async flows; resolves when its time is over, or it was killed. */
  async join(peer: Peer, how: { untilMs: number; threads: number; kind?: string }): Promise<void> {
    const who = this.idOf(peer);
    try {
      const order = { ...this.options, history: this.key, who, ...how };
      this.done.push(...((await peer.order('crowd', '', order)).threads ?? []));
    } catch (error) {
      if (!this.killed.has(who)) throw error;
    }
  }

  async kill(peer: Peer): Promise<void> {
    this.killed.add(this.idOf(peer));
    await peer.kill();
  }

  history(): Promise<string[]> {
    return this.stage.redis.lrange(this.key, 0, -1);
  }

  private idOf(peer: Peer): string {
    const id = this.ids.get(peer) ?? `${peer.side}:${this.ids.size + 1}`;
    this.ids.set(peer, id);
    return id;
  }
}
