import type { TcpProxy } from '../tcp-proxy/index.d.mts';

/** Who talks to whom through one proxy. Members are numbered from 1. */
export interface PeerRoute {
  readonly to: number;
  /** The member that connects, or what tells it from the first bytes of a connection. */
  readonly from: number | ((chunk: Buffer) => number | undefined);
  /** What a connecting member's bytes are replaced with, as in a proxy that changes an address. */
  readonly edit?: (chunk: Buffer) => Buffer;
}

/**
 * The network between the members of one cluster: each connection from member to member goes through a proxy.
 *
 * What is sent over a cut link vanishes, in both directions, and neither end is told.
 */
export class PeerLinks {
  /** A proxy before the port of a member. */
  before(port: number, route: PeerRoute): Promise<TcpProxy>;
  /** Nothing gets from one to the other any more. */
  cut(one: number, other: number): void;
  /** Cuts the member off from all others. */
  isolate(member: number): void;
  /** From now on what goes to or comes from the member arrives this much later; never out of order. */
  delay(member: number, delayMs: number | (() => number)): void;
  /** What one member says to the other waits, until `deliver`. */
  hold(from: number, to: number): void;
  deliver(from: number, to: number): void;
  /** What one member says to the other vanishes, and not what it hears. */
  mute(from: number, to: number): void;
  /** Ends cuts, holds and delays. Connections that have lost bytes break, so that the members connect again at once. */
  mend(): void;
  close(): Promise<void>;
}
