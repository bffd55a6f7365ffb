import type { Channels, Subscriber } from '../data/channels.js';
import { Push, type Reply } from '../resp/reply.js';

/** The channels of one client. */
export class Subscriptions implements Subscriber {
  private readonly names = new Set<string>();

  /** @param push writes to the client */
  constructor(
    private readonly channels: Channels,
    private readonly push: (reply: Push) => void,
  ) {}

  get count(): number {
    return this.names.size;
  }

  onMessage(channel: string, message: string): void {
    this.push(new Push(['message', channel, message]));
  }

  subscribe(names: readonly string[]): void {
    for (const name of names) {
      this.names.add(name);
      this.channels.add(name, this);
      this.confirm('subscribe', name);
    }
  }

  /** Without names from all channels. */
  unsubscribe(names: readonly string[]): void {
    const gone = names.length > 0 ? names : [...this.names];
    for (const name of gone) {
      this.names.delete(name);
      this.channels.remove(name, this);
      this.confirm('unsubscribe', name);
    }
    if (gone.length === 0) this.confirm('unsubscribe', null);
  }

  /** The client is gone. */
  drop(): void {
    for (const name of this.names) this.channels.remove(name, this);
    this.names.clear();
  }

  private confirm(what: string, name: Reply): void {
    this.push(new Push([what, name, this.names.size]));
  }
}
