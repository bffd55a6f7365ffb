import { channelOf } from '../../../../libs/distributed-lock/src/stores/sql/postgres/statements/notifications.js';
import { SimServer } from '../../kernel/server.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Listener, ServerEnd } from '../../network/connection.js';
import { Rows } from './rows.js';
import type { WireReply, WireRequest } from './wire.js';

/** A database server with one lock table. It notifies the clients that listen, as PostgreSQL does. */
export class SqlServer extends SimServer {
  readonly rows: Rows;
  private readonly listening = new Map<string, ServerEnd>();

  constructor(kernel: Kernel) {
    super('sql', kernel);
    this.rows = new Rows(
      () => this.timeOfDay,
      (client, name, row) => {
        const { version, state, last, at, notes, now } = row;
        const notified = JSON.stringify([name, version, state, last, at, notes, now]);
        this.listening.get(channelOf(client))?.send({ notified } satisfies WireReply, 'notification');
      },
    );
    this.onCrash.push(() => this.rows.crash());
  }

  accept(end: ServerEnd): Listener {
    let channel: string | undefined;
    return {
      onMessage: (payload) => {
        const request = payload as WireRequest;
        if (request.kind === 'listen') this.listening.set((channel = request.channel), end);
        end.send(this.replyTo(request), `re:${request.kind}`);
      },
      onClose: () => {
        if (channel !== undefined && this.listening.get(channel) === end) this.listening.delete(channel);
      },
    };
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
      case 'ping':
        return { replies: [] };
    }
  }
}
