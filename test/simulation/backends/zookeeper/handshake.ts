import {
  JuteWriter,
  type JuteReader,
} from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';

/** What a client says first on each connection. */
export interface Handshake {
  readonly op: 'handshake';
  /** 0 asks for a new session. */
  readonly session: bigint;
  readonly timeoutMs: number;
  /** The newest transaction that the client has seen. */
  readonly lastZxid: number;
}

const PASSWORD = Buffer.alloc(16);

export function readHandshakeRequest(reader: JuteReader): Handshake {
  reader.int(); // version of the protocol
  const lastZxid = reader.number();
  const timeoutMs = reader.int();
  return { op: 'handshake', session: reader.long(), timeoutMs, lastZxid };
}

/** @param timeoutMs 0 says that the session is over */
export function handshakeReply(session: bigint, timeoutMs: number): Buffer {
  return new JuteWriter().int(0).int(timeoutMs).long(session).buffer(PASSWORD).bool(false).frame();
}
