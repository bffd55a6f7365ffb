/** One direction of one connection. What is dropped is gone; what is held is delivered, in order, by `pass`. */
export class Flow {
  constructor(to: { readonly writable: boolean; write(chunk: Buffer): unknown });
  /** How many bytes are on hold, and how many have vanished. */
  readonly heldBytes: number;
  readonly droppedBytes: number;
  /** Pieces for which it answers true vanish; the others go their way. */
  loses: (chunk: Buffer) => boolean;
  /** What is carried in the place of each piece; the piece itself by default. */
  edit: (chunk: Buffer) => Buffer;
  /** @param delayMs how late each piece arrives from now on, or what tells it for each; never out of order */
  pass(delayMs?: number | (() => number)): void;
  hold(): void;
  drop(): void;
  carry(chunk: Buffer): void;
}

/** One connection of a client, and ours to the server for it. */
export class Link {
  readonly requests: Flow;
  readonly replies: Flow;
  /** Every command that the client has written, delivered or not; nothing with `keepsCommands: false`. */
  readonly commands: string[][];
  readonly isOpen: boolean;
  /** A connection that carries nothing for longer than this vanishes, as behind a load balancer; never by default. */
  forgetsAfterMs: number;
  /** Whether the client has ever written the command `name` here. */
  has(name: string): boolean;
  /** The client sends its commands here. In Redis it asks for the server's time first. */
  readonly carriesCommands: boolean;
  /** Bytes vanish both ways; nobody is told. */
  vanish(): void;
  /** The client sees a broken connection. Requests on hold stay in flight: `deliverLate` lets them arrive. */
  reset(): void;
  /** The server reads what was on hold, though the client has gone. */
  deliverLate(): void;
  destroy(): void;
}

export interface TcpProxyOptions {
  /** `redis` by default. Of the statements in `sql` only LISTEN is known. With `any` all that a client sends is a command. */
  readonly protocol?: 'redis' | 'sql' | 'any';
  /** Remembers every command of every connection, for tests to read; true by default. */
  readonly keepsCommands?: boolean;
}

/** Stands between one client and a server, and does to their bytes what networks do. */
export class TcpProxy {
  private constructor();
  static before(targetPort: number, options?: TcpProxyOptions): Promise<TcpProxy>;
  /** Applied to each new connection. */
  onLink: (link: Link) => void;
  readonly all: Link[];
  /** Where new connections go. */
  targetPort: number;
  readonly port: number;
  /** `redis://127.0.0.1:<port>` */
  readonly url: string;
  readonly open: Link[];
  /** The connection on which the client waits for pushes. @throws Error when there is none */
  readonly pushes: Link;
  /** The newest connection that carries commands. @throws Error when there is none */
  readonly commands: Link;
  close(): Promise<void>;
}

/** Tells from the bytes of an SQL client whether it listens for notifications. */
export class SqlRequests {
  /** @returns one command, `LISTEN` or `STATEMENT` */
  read(chunk: Buffer): string[][];
}

/** Reads the commands that a Redis client writes: arrays of strings. */
export class RespRequests {
  /** @returns the commands that are complete now, each with its arguments */
  read(chunk: Buffer): string[][];
}
