/**
 * Characters that are not visible or that a terminal acts on: control characters, line separators, characters that change the direction
 * of writing, ignorable ones, and unpaired surrogates. They can make a key look like another one. `admin/page/dom.js` has the same
 * list.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Escapes characters that a terminal or a log would act on, in JavaScript's notation. Keys and replies of servers come from outside and
 * must not write lines of their own into a log.
 */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, (char) => SHORT[char] ?? escaped(char));
}

function escaped(char: string): string {
  const hex = (char.codePointAt(0) as number).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`;
}

/** Hides properties from loggers, serializers and copies, so that these do not find the password of a client. */
export function conceal<T extends object>(owner: T, ...names: readonly string[]): void {
  for (const name of names) Object.defineProperty(owner, name, { enumerable: false });
}

/** Makes `console.log` show what `toJSON` of an object returns, and nothing else that the object refers to. `toJSON` may be protected. */
export function inspectByJson(cls: { readonly prototype: object }, name: string): void {
  const value = function (this: { toJSON(): object }, _depth: number, options: object, inspect: Inspect) {
    return `${name} ${inspect(this.toJSON(), options)}`;
  };
  Object.defineProperty(cls.prototype, Symbol.for('nodejs.util.inspect.custom'), { value });
}

/** `util.inspect`, which passes itself as the last argument to a custom inspection method. */
type Inspect = (value: unknown, options: object) => string;
