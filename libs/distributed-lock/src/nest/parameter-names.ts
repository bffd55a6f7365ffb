import { LockConfigurationError } from '../port/lock.errors.js';
import { type AnyClass, type AnyFunction, refuseStandard } from './metadata.js';

/** The parameters of a function, as far as they can be read from its source text with certainty. */
export interface Signature {
  readonly parameters: readonly Parameter[];
  /** Why there may be further parameters, and what to write instead, as text for a message. `undefined` if these are all. */
  readonly gap: string | undefined;
}

/** One parameter of a function as written in its source. */
interface Parameter {
  /** `undefined` for a destructured parameter and for a rest parameter. */
  readonly name: string | undefined;
  /**
   * `open` for a rest parameter and for one with a default. `Function.length` counts only the parameters before the first of
   * those.
   */
  readonly kind: 'plain' | 'open';
}

const GONE =
  'another decorator has replaced the method, so its names are gone: put @Locked nearest to the method, or use <0>';
const UNREADABLE =
  'what follows in its source text cannot be read for certain, for instance after a default value with a "/" in it: use a position, such as <1>, or a key function, (…) => lockKey`…`';

const WORD = String.raw`#?[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*`;
const NUMBER = String.raw`\.?\d(?:[eE][+-]|[\w.])*`;
const TEXT = String.raw`'(?:\\[^]|[^\\'])*'|"(?:\\[^]|[^\\"])*"`;
const BLANK = String.raw`\s+|\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/`;
const TOKEN = new RegExp(`(${BLANK})|${TEXT}|${WORD}|${NUMBER}|\\.{3}|=>|={2,3}|<!--|-->|[^]`, 'uy');
/** The text inside a template literal, up to its end or to the next `${`. */
const TEMPLATE = /(?:\\[^]|\$(?!\{)|[^\\`$])*(?:`|\$\{)/uy;
const OPENING: readonly string[] = ['(', '[', '{', '${'];
const CLOSING: readonly string[] = [')', ']', '}'];
/**
 * Tokens whose meaning depends on the code around them, so reading stops there. A `/` divides or begins a regular expression.
 * `<!--` and `-->` begin comments in scripts, and are operators in modules.
 */
const AMBIGUOUS: readonly string[] = ['/', '<!--', '-->'];

/** Matches the source before the list of parameters. `async` and `function` may also be the name of a method. */
const HEAD = new RegExp(`^(?:async ?)?(?:function ?)?(?:\\* ?)?(?:${WORD}|${NUMBER}|${TEXT}|\\[ \\])?$`, 'u');
const BARE_ARROW = new RegExp(`^(?:async )?(${WORD})$`, 'u');
const PARAMETER = new RegExp(
  `^(?:(?<rest>\\.{3}) )?(?:(?<name>${WORD})|\\{ \\}|\\[ \\])(?<initial> =.*)?$`,
  'su',
);

/**
 * Reads the parameters of a function from its source text. It recognises names, commas and brackets, but no expressions. At the
 * first token that it cannot interpret it stops, and reports the parameters behind as unknown, so that none gets the wrong
 * position.
 */
export function signatureOf(fn: AnyFunction): Signature {
  const source = Function.prototype.toString.call(fn);
  const isNative = source.endsWith('{ [native code] }');
  const signature = isNative ? undefined : readSignature(tokensOf(source));
  // If the source does not fit `length`, a decorator has replaced the method by a wrapper, with other parameters and the method's
  // `length`.
  return signature && fitsLength(signature, fn.length) ? signature : { parameters: [], gap: GONE };
}

function fitsLength({ parameters, gap }: Signature, length: number): boolean {
  const firstOpen = parameters.findIndex(({ kind }) => kind === 'open');
  if (firstOpen >= 0) return length === firstOpen;
  return gap === undefined ? length === parameters.length : length >= parameters.length;
}

function readSignature(tokens: Tokens): Signature {
  const parameters: Parameter[] = [];
  const head = readUpTo(tokens, ['(', '=>']);
  const bare = head.end === '=>' ? BARE_ARROW.exec(head.text)?.[1] : undefined;
  if (bare !== undefined) return { parameters: [{ name: bare, kind: 'plain' }], gap: undefined };
  if (head.end !== '(' || !HEAD.test(head.text)) return { parameters, gap: UNREADABLE };
  for (;;) {
    const { text, end } = readUpTo(tokens, [',', ')']);
    // The list has no parameter, or ends with a comma.
    if (text === '' && end === ')') break;
    const parts = PARAMETER.exec(text)?.groups;
    // If reading stopped inside this parameter, its name is certain only if its default value had begun.
    if (!parts || (end === undefined && parts['initial'] === undefined))
      return { parameters, gap: UNREADABLE };
    const { rest, name, initial } = parts;
    parameters.push({
      name: rest === undefined ? name : undefined,
      kind: rest === undefined && initial === undefined ? 'plain' : 'open',
    });
    if (end === undefined) return { parameters, gap: UNREADABLE };
    if (end === ')') break;
  }
  const { value: body } = tokens.next();
  return { parameters, gap: body === '{' || body === '=>' ? undefined : UNREADABLE };
}

/** Reads tokens up to the first of `ends` outside of brackets. Returns what is outside of brackets. */
function readUpTo(
  tokens: Tokens,
  ends: readonly string[],
): { readonly text: string; readonly end: string | undefined } {
  const outside: string[] = [];
  let depth = 0;
  for (let next = tokens.next(); !next.done; next = tokens.next()) {
    const token = next.value;
    if (depth === 0 && ends.includes(token)) return { text: outside.join(' '), end: token };
    if (CLOSING.includes(token)) depth -= 1;
    if (depth === 0) outside.push(token);
    if (OPENING.includes(token)) depth += 1;
  }
  return { text: outside.join(' '), end: undefined };
}

type Tokens = Iterator<string, undefined>;

/**
 * Splits JavaScript into tokens, without blanks and comments, up to the first ambiguous one. Of a template literal it yields the
 * backtick and the tokens of its expressions.
 */
function* tokensOf(source: string): Tokens & Generator<string, undefined> {
  const braces: string[] = [];
  let position = 0;
  const read = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = position;
    const match = pattern.exec(source);
    position = pattern.lastIndex;
    return match;
  };
  for (let match = read(TOKEN); match; match = read(TOKEN)) {
    const [token, blank] = match;
    if (blank !== undefined) continue;
    if (AMBIGUOUS.includes(token)) return;
    yield token;
    if (token === '{') braces.push(token);
    if (token === '`' || (token === '}' && braces.pop() === '${')) {
      const text = read(TEMPLATE)?.[0];
      if (text === undefined) return;
      if (!text.endsWith('${')) continue;
      braces.push('${');
      yield '${';
    }
  }
}

/**
 * Parameters that are marked by a decorator, such as `@CurrentLock()`. The wrapper of the method fills them in if the caller
 * leaves them out.
 */
export class ParameterSlots<T> {
  /** @param key made by `Symbol.for`, so that both builds of this package find the marks */
  constructor(private readonly key: symbol) {}

  /**
   * Makes the parameter decorator. `of` gets the argument from the value to fill in.
   *
   * @throws LockConfigurationError on a parameter of a constructor, when the class is loaded
   */
  decorator(name: string, of: (value: T) => unknown): ParameterDecorator {
    return (target, method, index) => {
      refuseStandard(name, method);
      if (method === undefined || typeof index !== 'number') {
        const where = method === undefined ? 'the constructor' : String(method);
        throw new LockConfigurationError(
          `${name} on ${where} of ${declaringClass(target).name}: it belongs on a parameter of a method.`,
        );
      }
      Reflect.defineMetadata(this.key, [...this.slotsOf(target, method), { index, of }], target, method);
    };
  }

  /**
   * Returns whether a method has such parameters.
   *
   * @param target the prototype of the class that declares the method, or that class for a static method
   */
  has(target: object, method: string | symbol): boolean {
    return this.slotsOf(target, method).length > 0;
  }

  fill(
    { target, method }: { readonly target: object; readonly method: string | symbol },
    args: readonly unknown[],
    value: T,
  ): readonly unknown[] {
    const slots = this.slotsOf(target, method);
    if (slots.length === 0) return args;
    const filled = [...args];
    for (const { index, of } of slots) filled[index] ??= of(value);
    return filled;
  }

  /** The marked parameters of the method as this class declares it. A method that overrides another one has its own. */
  private slotsOf(target: object, method: string | symbol): readonly Slot<T>[] {
    return (Reflect.getOwnMetadata(this.key, target, method) as readonly Slot<T>[] | undefined) ?? [];
  }
}

interface Slot<T> {
  readonly index: number;
  readonly of: (value: T) => unknown;
}

/** The class that declares a decorated method or parameter. */
export function declaringClass(target: object): AnyClass {
  return (typeof target === 'function' ? target : target.constructor) as AnyClass;
}
