export type AnyClass = abstract new (...args: never[]) => unknown;
export type AnyFunction = (...args: never[]) => unknown;
