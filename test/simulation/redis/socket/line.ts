/** What a client hears of its connection. */
export interface LineEvents {
  onConnect(): void;
  /** @param bytes a byte string */
  onData(bytes: string): void;
  /** The other end writes no more. */
  onEnd(): void;
  /** The connection is refused, or reset. Nothing follows. */
  onError(error: Error): void;
}

/** One TCP connection, as the client's machine sees it. Implemented by the network of a simulation. */
export interface Line {
  open(events: LineEvents): void;
  write(bytes: string): void;
  /** The client writes no more. */
  end(): void;
  /** The client is gone. Nothing is heard any more. */
  destroy(): void;
}

/** As Node says it. */
export function socketError(
  code: 'ECONNREFUSED' | 'ECONNRESET' | 'ETIMEDOUT',
  syscall: 'connect' | 'read',
): Error {
  return Object.assign(new Error(`${syscall} ${code}`), { code, syscall });
}
