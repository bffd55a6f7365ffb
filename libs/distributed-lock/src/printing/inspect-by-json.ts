/** What Node gives to the method that `console.log` and `util.inspect` call. */
type Inspect = (value: unknown, options: object) => string;

/** Lets `console.log` show objects of a class by their `toJSON`, and not what hangs on them. */
export function inspectByJson(cls: { readonly prototype: { toJSON(): object } }, name: string): void {
  const value = function (this: { toJSON(): object }, _depth: number, options: object, inspect: Inspect) {
    return `${name} ${inspect(this.toJSON(), options)}`;
  };
  // By the name that needs no import.
  Object.defineProperty(cls.prototype, Symbol.for('nodejs.util.inspect.custom'), { value });
}
