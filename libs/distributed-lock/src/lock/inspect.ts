/** The method that `console.log` and `util.inspect` call, by the name that needs no import. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** What Node gives to that method. */
export type Inspect = (value: unknown, options: object) => string;
