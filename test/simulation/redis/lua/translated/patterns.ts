/** Classes of Lua's patterns, for bytes. */
const CLASSES: Readonly<Record<string, string>> = {
  a: 'A-Za-z',
  c: '\\x00-\\x1f\\x7f',
  d: '0-9',
  l: 'a-z',
  p: '!-\\/:-@[-`{-~',
  s: ' \\t-\\r',
  u: 'A-Z',
  w: 'A-Za-z0-9',
  x: '0-9A-Fa-f',
};
const QUANTIFIERS: Readonly<Record<string, string>> = { '*': '*', '+': '+', '?': '?', '-': '*?' };

const known = new Map<string, RegExp>();

/** A pattern of Lua as a regular expression with the flag `g`. @throws Error for `%b`, `%f`, `%1` and `()` */
export function regExpOf(pattern: string): RegExp {
  let made = known.get(pattern);
  if (!made) known.set(pattern, (made = new RegExp(translated(pattern), 'g')));
  made.lastIndex = 0;
  return made;
}

function translated(pattern: string): string {
  let at = 0;
  let result = '';
  if (pattern.startsWith('^')) {
    at = 1;
    result = '^';
  }
  while (at < pattern.length) {
    const char = pattern[at] as string;
    if (char === '(' && pattern[at + 1] === ')') throw unknown(pattern, '()');
    if (char === '(' || char === ')') {
      result += char;
      at += 1;
      continue;
    }
    if (char === '$' && at === pattern.length - 1) return `${result}$`;
    const [item, length] = itemAt(pattern, at);
    at += length;
    const quantifier = QUANTIFIERS[pattern[at] ?? ''];
    if (quantifier !== undefined) at += 1;
    result += item + (quantifier ?? '');
  }
  return result;
}

/** What stands for one byte. */
function itemAt(pattern: string, at: number): readonly [item: string, length: number] {
  const char = pattern[at] as string;
  if (char === '.') return ['[^]', 1];
  if (char === '%') return [`[${escapedAt(pattern, at)}]`.replace('[\\^]', '\\^'), 2];
  if (char !== '[') return [literal(char), 1];
  let end = at + 1;
  let set = '[';
  if (pattern[end] === '^') {
    set += '^';
    end += 1;
  }
  for (let isFirst = true; isFirst || pattern[end] !== ']'; isFirst = false) {
    if (end >= pattern.length) throw unknown(pattern, 'a set without an end');
    if (pattern[end] === '%') {
      set += escapedAt(pattern, end);
      end += 2;
    } else if (pattern[end + 1] === '-' && pattern[end + 2] !== ']') {
      set += `${literal(pattern[end] as string)}-${literal(pattern[end + 2] as string)}`;
      end += 3;
    } else {
      set += literal(pattern[end] as string);
      end += 1;
    }
  }
  return [`${set}]`, end + 1 - at];
}

/** What `%x` stands for inside of a set. */
function escapedAt(pattern: string, at: number): string {
  const char = pattern[at + 1] ?? '';
  const meant = CLASSES[char];
  if (meant !== undefined) return meant;
  if (char === '' || /[A-Za-z0-9]/.test(char)) throw unknown(pattern, `%${char}`);
  return literal(char);
}

function literal(char: string): string {
  return /[\^$\\.*+?()[\]{}|/-]/.test(char) ? `\\${char}` : char;
}

function unknown(pattern: string, what: string): Error {
  return new Error(
    `The pattern "${pattern}" of a script cannot be translated to JavaScript: ${what} is not known.`,
  );
}
