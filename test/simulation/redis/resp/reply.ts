/** A simple string, such as OK. */
export class Status {
  constructor(readonly text: string) {}
}

/** An error of the server. `message` starts with its code. A command throws it, and a script may return it. */
export class ErrorReply extends Error {}

/** A floating-point number: a bulk string in RESP2. */
export class Double {
  constructor(readonly value: number) {}
}

/** Keys and values in turn: a flat array in RESP2. */
export class MapReply {
  constructor(readonly flat: readonly Reply[]) {}
}

/** Members with their scores: pairs, which are a flat array in RESP2. */
export class ScoredReply {
  constructor(readonly entries: readonly (readonly [member: string, score: number])[]) {}

  get flat(): readonly Reply[] {
    return this.entries.flatMap(([member, score]) => [member, new Double(score)]);
  }
}

/** Out of band: a message, or the confirmation of a subscription. A plain array in RESP2. */
export class Push {
  constructor(readonly items: readonly Reply[]) {}
}

/**
 * What a command answers. Texts are byte strings: each character is one byte (latin1), as everywhere in this server.
 */
export type Reply =
  | null
  | number
  | string
  | readonly Reply[]
  | Status
  | ErrorReply
  | Double
  | MapReply
  | ScoredReply
  | Push;

export const OK = new Status('OK');

export function wrongType(): ErrorReply {
  return new ErrorReply('WRONGTYPE Operation against a key holding the wrong kind of value');
}
