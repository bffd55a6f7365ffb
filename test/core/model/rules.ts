/** The rules of the protocol. Each can be switched off. docs/decisions/0003 says what each is against. */
export const RULES = [
  'P1 not after',
  'P1 repeated release',
  'P2 age of a notification',
  'P3 first token at renewal',
  'P3 another grant means lost',
  'P4 release built once',
  'P4 give-back only by the holder of that block',
  'P5 release also frees',
  'P6 rechecks',
  'P9 min token',
  'P10 live until',
  'P10 skip',
  'P14 no token left',
  'P18 a script that finds it free grants',
  'P22 back to the queue',
  'initial lease',
] as const;

export type Rule = (typeof RULES)[number];

export interface Size {
  readonly processes: number;
  readonly callers: number;
  readonly java: boolean;
  /** The faults of all kinds together: a message lost or late, a crash, a key deleted, data lost, a subscription broken. */
  readonly faults: number;
  readonly aborts: number;
  /** A caller may release with a minimum hold. */
  readonly holds: boolean;
}

export interface Configuration extends Size {
  readonly off: ReadonlySet<Rule>;
}

/** In ticks. A command's deadline is one tick, and margins are nothing: whatever ends, ends with the tick. */
export const LEASE = 3;
export const SHORT = 2;
export const DEADLINE = 1;
export const GONE = 1;
export const BLOCK = 2;
/** A minimum hold, from the release on. */
export const KEPT = 2;
