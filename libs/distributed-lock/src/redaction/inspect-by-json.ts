/** Makes `console.log` show the `toJSON` of objects of a class, which may be protected, and no other objects that they lead to. */
export function inspectByJson(cls: { readonly prototype: object }, name: string): void {
  const value = function (this: { toJSON(): object }, _depth: number, options: object, inspect: Inspect) {
    return `${name} ${inspect(this.toJSON(), options)}`;
  };
  Object.defineProperty(cls.prototype, Symbol.for('nodejs.util.inspect.custom'), { value });
}

/** The last argument of the method that `console.log` and `util.inspect` call. */
type Inspect = (value: unknown, options: object) => string;
