import type { SimProcess } from '../kernel/process.js';
import type { SimServer } from '../kernel/server.js';

/** One message under way, as a fault aims at it. */
export interface Message {
  /** What the back end calls it: `swap`, `evalsha acquire`. */
  readonly kind: string;
  readonly direction: 'request' | 'reply';
  readonly process: SimProcess;
  readonly server: SimServer;
}

/** What becomes of a message. */
export interface Fate {
  /** Further time under way. Messages behind it on this connection wait for it. */
  readonly holdMs?: number;
  /** It never arrives, nor does anything behind it: nobody is told. */
  readonly isLost?: boolean;
  /** It arrives, and then the connection breaks for both ends: what comes back is lost. */
  readonly breaksAfter?: boolean;
  /** The connection breaks before it arrives. */
  readonly breaks?: boolean;
}
