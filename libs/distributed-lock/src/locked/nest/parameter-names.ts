/** One parameter of a function as written in its source. */
export interface Parameter {
  /** `undefined` for a destructured one. */
  readonly name: string | undefined;
  /** `open`: a rest parameter, or one with a default. `Function.length` does not count it. */
  readonly kind: 'plain' | 'open';
}

const OPENING = '([{';
const CLOSING = ')]}';

/**
 * The parameters of `fn`, read from its source text.
 *
 * @returns `undefined` when the source is not there: native, bound, or replaced by another decorator's Proxy
 */
export function parametersOf(fn: (...args: never[]) => unknown): readonly Parameter[] | undefined {
  const source = Function.prototype.toString.call(fn);
  if (source.endsWith('{ [native code] }')) return undefined;
  return splitParameters(source).map((text) => {
    const name = /^[\p{ID_Start}$_][\p{ID_Continue}$]*/u.exec(text)?.[0];
    return { name, kind: text.startsWith('...') || /=(?!>)/.test(text) ? 'open' : 'plain' };
  });
}

function splitParameters(source: string): readonly string[] {
  const bare = /^(?:async\s+)?([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*=>/u.exec(source);
  if (bare?.[1]) return [bare[1]];
  const parts = [''];
  let depth = 0;
  for (let i = source.indexOf('('); i < source.length; i += 1) {
    const skipped = skipTextAt(source, i);
    const char = source.charAt(i);
    if (CLOSING.includes(char)) depth -= 1;
    if (depth === 0 && char === ')') break;
    if (depth === 1 && char === ',') parts.push('');
    else if (depth > 0 && !isComment(source, i)) parts[parts.length - 1] += source.slice(i, skipped + 1);
    if (OPENING.includes(char)) depth += 1;
    i = skipped;
  }
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

function isComment(source: string, i: number): boolean {
  return source.startsWith('//', i) || source.startsWith('/*', i);
}

/** The last index of the comment or string literal that starts at `i`; `i` itself where none does. */
function skipTextAt(source: string, i: number): number {
  const text = /^(?:\/\/[^\n]*|\/\*[^]*?\*\/|'(?:\\.|[^\\'])*'|"(?:\\.|[^\\"])*"|`(?:\\.|[^\\`])*`)/u.exec(
    source.slice(i),
  );
  return text ? i + text[0].length - 1 : i;
}
