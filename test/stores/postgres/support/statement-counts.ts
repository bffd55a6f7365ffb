import type { Link, TcpProxy } from '#tcp-proxy';

/** The first message of a client has no type. */
const STARTUP = 0;

/** A new store notifies itself once, to find out whether notifications arrive. */
const PROBE = 'nest_lock_notify';

/** Counts the statements for locks that clients execute through a proxy, by the messages of the protocol. */
export class StatementCounts {
  /** On all connections, without those that carry LISTEN. */
  get statements(): number {
    let sum = 0;
    for (const [link, count] of this.counts) if (!link.has('listen')) sum += count;
    return sum;
  }

  private readonly counts = new Map<Link, number>();

  constructor(proxy: TcpProxy) {
    proxy.onLink = (link) => {
      let rest = Buffer.alloc(0);
      let typeLength = STARTUP;
      let isProbe = false;
      this.counts.set(link, 0);
      link.requests.loses = (chunk) => {
        rest = Buffer.concat([rest, chunk]);
        for (;;) {
          if (rest.length < typeLength + 4) return false;
          const end = typeLength + rest.readUInt32BE(typeLength);
          if (rest.length < end) return false;
          const type = typeLength === STARTUP ? '' : String.fromCharCode(rest[0] as number);
          // A Bind names the portal and the statement, each with a zero after it. A probe is no statement for a lock.
          if (type === 'B') isProbe = rest.subarray(0, end).includes(`\0${PROBE}\0`);
          const isStatement = (type === 'E' && !isProbe) || type === 'Q';
          if (isStatement) this.counts.set(link, (this.counts.get(link) ?? 0) + 1);
          rest = rest.subarray(end);
          typeLength = 1;
        }
      };
    };
  }

  /** How many statements `work` takes. */
  async during(work: () => Promise<unknown>): Promise<number> {
    const before = this.statements;
    await work();
    return this.statements - before;
  }
}
