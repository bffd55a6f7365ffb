/** Makes `console.log` show what `toJSON` of an object returns, and nothing else that it refers to. `toJSON` may be protected. */
export function inspectByJson(cls: { readonly prototype: object }, name: string): void {
  const value = function (this: { toJSON(): object }, _depth: number, options: object, inspect: Inspect) {
    return `${name} ${inspect(this.toJSON(), options)}`;
  };
  Object.defineProperty(cls.prototype, Symbol.for('nodejs.util.inspect.custom'), { value });
}

/** The last argument of the method that `console.log` and `util.inspect` call. */
type Inspect = (value: unknown, options: object) => string;
