import type { Dice } from '../kernel/dice.js';
import type { Kernel } from '../kernel/kernel.js';
import type { SimProcess } from '../kernel/process.js';
import type { SimServer } from '../kernel/server.js';
import { Connection, type Accept, type ClientEnd, type Listener, type Wire } from './connection.js';
import type { Fate, Message } from './message.js';

export interface Latency {
  /** One way, in ms. */
  readonly least: number;
  /** Most messages take little more than `least`, few take `least + spread`. */
  readonly spread: number;
}

/** Connections between processes and servers, with a delay for each message and the faults of the plan. */
export class Network implements Wire {
  /** Decides about each message that is sent. Set by the faults of the plan. */
  fateOf: (message: Message) => Fate | undefined = () => undefined;
  private readonly accepts = new Map<SimServer, Accept>();
  private readonly connections = new Set<Connection>();
  private readonly cuts = new Map<SimProcess, Map<SimServer, number>>();
  private readonly farMs = new Map<SimProcess, number>();
  private opened = 0;

  constructor(
    readonly kernel: Kernel,
    private readonly latency: Latency,
  ) {}

  /** Connections to `server` are accepted by `accept`. When it crashes they break. */
  serve(server: SimServer, accept: Accept): void {
    this.accepts.set(server, accept);
    server.onCrash.push(() => {
      for (const each of this.connections) if (each.server === server) each.break();
    });
  }

  /** Opens a connection. Its listener is told `onOpen`, or `onClose` when it is refused. Without an answer it is told nothing. */
  connect(process: SimProcess, server: SimServer, listener: Listener & { onOpen(): void }): ClientEnd {
    const dice = this.kernel.dice.fork(`connection ${++this.opened}`);
    const connection = new Connection(this, process, server, dice, listener);
    this.connections.add(connection);
    process.onEnd(() => connection.client.destroy());
    connection.open(this.accepts.get(server));
    return connection.client;
  }

  forget(connection: Connection): void {
    this.connections.delete(connection);
  }

  /** How many connections both ends believe in. */
  get openConnections(): number {
    return this.connections.size;
  }

  /** From now on messages to and from this process take so much longer. */
  moveAway(process: SimProcess, ms: number): void {
    this.farMs.set(process, ms);
  }

  /** For so many ms nothing gets through between the two. What was sent meanwhile arrives then, as TCP repeats it. */
  cut(process: SimProcess, server: SimServer, ms: number): void {
    const until = this.kernel.now + ms;
    const cuts = this.cuts.get(process) ?? new Map<SimServer, number>();
    this.cuts.set(process, cuts.set(server, Math.max(until, cuts.get(server) ?? 0)));
  }

  /** Breaks each connection between the two, or those on which a request of this kind was sent. */
  reset(process: SimProcess, server: SimServer, kind?: string): void {
    for (const each of this.connections) {
      if (each.process !== process || each.server !== server) continue;
      if (kind === undefined || each.hasCarried(kind)) each.break();
    }
  }

  arrivalOf({ process, server }: Connection, sentAt: number, dice: Dice): number {
    const cutUntil = this.cuts.get(process)?.get(server) ?? 0;
    const { least, spread } = this.latency;
    const farMs = this.farMs.get(process) ?? 0;
    return Math.max(sentAt, cutUntil) + least + farMs + spread * dice.random() ** 4;
  }
}
