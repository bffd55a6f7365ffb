import { Frames } from '../../../../libs/distributed-lock/src/zookeeper/client/connection.js';
import type { TcpProxy } from '#tcp-proxy';

const NAMES = new Map([
  [3, 'exists'],
  [4, 'getData'],
  [9, 'sync'],
  [12, 'getChildren2'],
  [14, 'multi'],
]);

const SET_DATA = 5;

/** Counts the requests for locks that clients send through a proxy. */
export class RequestCounts {
  private counts = new Map<string, number>();

  constructor(proxy: TcpProxy) {
    proxy.onLink = (link) => {
      const frames = new Frames();
      let isOpen = false;
      link.requests.loses = (chunk) => {
        for (const frame of frames.read(chunk)) {
          // The first message is the handshake. A keep-alive writes the presence of its session.
          const isKeepAlive = frame.includes('/nest-lock/s/') && frame.readInt32BE(8) === SET_DATA;
          if (isOpen && !isKeepAlive) this.count(NAMES.get(frame.readInt32BE(4)) ?? 'other');
          isOpen = true;
        }
        return false;
      };
    };
  }

  /** The requests that `work` takes, by name. */
  async during(work: () => Promise<unknown>): Promise<Readonly<Record<string, number>>> {
    this.counts = new Map();
    await work();
    return Object.fromEntries(this.counts);
  }

  private count(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }
}
