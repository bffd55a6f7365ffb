export interface Subscriber {
  onMessage(channel: string, message: string): void;
}

/** Who is subscribed to which channel. */
export class Channels {
  private readonly subscribers = new Map<string, Set<Subscriber>>();

  /** @returns how many have received it */
  publish(channel: string, message: string): number {
    const subscribers = this.subscribers.get(channel) ?? [];
    for (const subscriber of subscribers) subscriber.onMessage(channel, message);
    return this.count(channel);
  }

  count(channel: string): number {
    return this.subscribers.get(channel)?.size ?? 0;
  }

  add(channel: string, subscriber: Subscriber): void {
    const subscribers = this.subscribers.get(channel) ?? new Set();
    this.subscribers.set(channel, subscribers.add(subscriber));
  }

  remove(channel: string, subscriber: Subscriber): void {
    const subscribers = this.subscribers.get(channel);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) this.subscribers.delete(channel);
  }
}
