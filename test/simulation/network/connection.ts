import type { Dice } from '../kernel/dice.js';
import type { Kernel } from '../kernel/kernel.js';
import type { SimProcess } from '../kernel/process.js';
import type { SimServer } from '../kernel/server.js';
import type { Fate, Message } from './message.js';

/** Of one end of a connection. Nothing follows `onClose`. */
export interface Listener {
  onMessage(payload: unknown): void;
  onClose(): void;
}

interface End {
  /** @param kind the name by which faults aim at the message */
  send(payload: unknown, kind: string): void;
  /** Nothing arrives here any more. What was sent before still arrives there, and then the end of the connection. */
  destroy(): void;
}

export type ClientEnd = End;
export interface ServerEnd extends End {
  readonly process: SimProcess;
}

/** What a server does with a new connection. @returns the listener of its end, or `undefined` to refuse it */
export type Accept = (end: ServerEnd) => Listener | undefined;

/** What a connection is part of. Implemented by `Network`. */
export interface Wire {
  readonly kernel: Kernel;
  fateOf(message: Message): Fate | undefined;
  /** The true time at which a message that is sent at `sentAt` would arrive. */
  arrivalOf(connection: Connection, sentAt: number, dice: Dice): number;
  /** Both ends have ended it. */
  forget(connection: Connection): void;
}

/** So much later than the message before it on the same connection. */
const BEHIND_MS = 0.001;

/** One TCP connection: in each direction messages arrive in the order in which they were sent, or not at all. */
export class Connection {
  readonly client: ClientEnd;
  private readonly serverEnd: ServerEnd;
  private onServer: Listener | undefined;
  private onClient: (Listener & { onOpen(): void }) | undefined;
  private readonly lastAt = { request: 0, reply: 0 };
  private readonly isBlackHole = { request: false, reply: false };
  /** The kinds of requests that were sent on it. */
  private readonly requests = new Set<string>();

  constructor(
    private readonly network: Wire,
    readonly process: SimProcess,
    readonly server: SimServer,
    private readonly dice: Dice,
    listener: Listener & { onOpen(): void },
  ) {
    this.onClient = listener;
    this.client = {
      send: (payload, kind) => {
        if (!this.onClient) return;
        this.requests.add(kind);
        this.send('request', kind, () => this.onServer?.onMessage(payload));
      },
      destroy: () => {
        if (!this.onClient) return;
        this.onClient = undefined;
        this.send('request', 'end', () => this.endServer());
        this.forgetIfOver();
      },
    };
    this.serverEnd = {
      process,
      send: (payload, kind) => {
        if (this.onServer) this.send('reply', kind, () => this.onClient?.onMessage(payload));
      },
      destroy: () => {
        if (!this.onServer) return;
        this.onServer = undefined;
        this.send('reply', 'end', () => this.endClient());
        this.forgetIfOver();
      },
    };
  }

  open(accept: Accept | undefined): void {
    this.send('request', 'connect', () => {
      const isDown = this.server.state === 'down';
      if (!isDown && this.onClient) this.onServer = accept?.(this.serverEnd);
      if (this.onServer) this.send('reply', 'connected', () => this.onClient?.onOpen());
      else this.send('reply', 'refused', () => this.endClient());
    });
  }

  hasCarried(kind: string): boolean {
    return this.requests.has(kind);
  }

  /** Both ends learn that it is over, each when a message would have reached it. */
  break(): void {
    this.send('request', 'reset', () => this.endServer());
    this.send('reply', 'reset', () => this.endClient());
  }

  private send(direction: Message['direction'], kind: string, deliver: () => void): void {
    const { network, process, server } = this;
    const { kernel } = network;
    if (this.isBlackHole[direction]) return;
    const isOwn = kind === 'reset' || kind === 'end';
    const fate: Fate = (isOwn ? undefined : network.fateOf({ kind, direction, process, server })) ?? {};
    if (fate.isLost) {
      this.isBlackHole[direction] = true;
      return;
    }
    if (fate.breaks) return this.break();
    const sentAt = (kernel.current === process ? process.trueNow : kernel.now) + (fate.holdMs ?? 0);
    const at = Math.max(network.arrivalOf(this, sentAt, this.dice), this.lastAt[direction] + BEHIND_MS);
    this.lastAt[direction] = at;
    kernel.at(at, () => {
      const receiver = direction === 'request' ? this.receiverOf(kind) : process;
      receiver.receive(deliver);
      if (fate.breaksAfter) this.break();
    });
  }

  /** A server that is stopped takes connections all the same: its machine does. The machine of one that is down refuses them. */
  private receiverOf(kind: string): { receive(task: () => void): void } {
    const isForMachine = kind === 'connect' || kind === 'reset' || kind === 'end';
    if (isForMachine && this.server.state === 'down') return { receive: (task) => task() };
    return this.server;
  }

  private endServer(): void {
    const listener = this.onServer;
    this.onServer = undefined;
    listener?.onClose();
    this.forgetIfOver();
  }

  private endClient(): void {
    const listener = this.onClient;
    this.onClient = undefined;
    listener?.onClose();
    this.forgetIfOver();
  }

  private forgetIfOver(): void {
    if (!this.onClient && !this.onServer) this.network.forget(this);
  }
}
