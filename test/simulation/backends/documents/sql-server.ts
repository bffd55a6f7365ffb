import { channelOf } from '../../../../libs/distributed-lock/src/postgres/statements.js';
import { SimServer } from '../../kernel/server.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Listener, ServerEnd } from '../../network/connection.js';
import { Rows } from './rows.js';
import type { WireReply, WireRequest } from './wire.js';

/** A database server with one lock table. It notifies the clients that listen, as PostgreSQL does. */
export class SqlServer extends SimServer {
  readonly rows: Rows;
  /** By channel. A `LISTEN` that comes late, of a connection that its client has given up, takes nothing from the next one. */
  private readonly listening = new Map<string, Set<ServerEnd>>();

  constructor(kernel: Kernel) {
    super('sql', kernel);
    this.rows = new Rows(
      () => this.timeOfDay,
      (client, name, row) => {
        const { version, state, last, at, notes, now } = row;
        const notified = JSON.stringify([name, version, state, last, at, notes, now]);
        const ends = this.listening.get(channelOf(client)) ?? [];
        for (const end of ends) end.send({ notified } satisfies WireReply, 'notification');
      },
    );
    this.onCrash.push(() => this.rows.crash());
  }

  accept(end: ServerEnd): Listener {
    let channel: string | undefined;
    return {
      onMessage: (payload) => {
        const request = payload as WireRequest;
        if (request.kind === 'listen') this.listen((channel = request.channel), end);
        end.send(this.replyTo(request), `re:${request.kind}`);
      },
      onClose: () => {
        if (channel !== undefined) this.listening.get(channel)?.delete(end);
      },
    };
  }

  /** By owner, with the rest of each lease in true ms. */
  holdersOf(name: string): ReadonlyMap<string, number> {
    const leases = this.rows.holdersOf(name);
    return new Map([...leases].map(([owner, leftMs]) => [owner, this.trueMs(leftMs)]));
  }

  private listen(channel: string, end: ServerEnd): void {
    const ends = this.listening.get(channel) ?? new Set();
    this.listening.set(channel, ends.add(end));
  }

  private replyTo(request: WireRequest): WireReply {
    const { rows } = this;
    if (this.isRefusing && request.kind !== 'hello') return { refused: 'no space left on device' };
    switch (request.kind) {
      case 'hello':
      case 'listen':
        return { now: this.timeOfDay };
      case 'take':
        return { replies: request.items.map((item) => rows.take(item)) };
      case 'swap':
        return { replies: request.items.map((item) => rows.swap(item)) };
      case 'read':
        return { replies: request.items.map(({ name }) => rows.read(name)) };
      case 'scan':
        return { replies: rows.scan(request.after, request.most) };
      case 'deleteFree':
        rows.deleteFree(request.names);
        return { replies: [] };
      case 'ping':
        return { replies: [] };
    }
  }
}
