/** A script that the translator does not understand. It is a mistake of the script or a gap of the translator, and no error of the server. */
export class TranslationError extends Error {
  constructor(line: number, what: string) {
    super(`This Lua cannot be translated to JavaScript: line ${line}: ${what}.`);
  }
}

export interface Token {
  readonly kind: 'name' | 'word' | 'number' | 'string' | 'symbol' | 'end';
  /** Of a string its bytes, without quotes and escapes. */
  readonly text: string;
  readonly line: number;
}

const WORDS: ReadonlySet<string> = new Set(
  'and break do else elseif end false for function goto if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
);
const TOKEN =
  /(?<space>[ \t\r\n]+|--\[\[[^]*?\]\]|--[^\n]*)|(?<name>[A-Za-z_]\w*)|(?<number>0[xX][\dA-Fa-f]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?<string>'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*")|(?<symbol>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}[\];:,.])/y;
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  '\\': '\\',
  '"': '"',
  "'": "'",
  '\n': '\n',
};

export function tokensOf(source: string): readonly Token[] {
  const tokens: Token[] = [];
  let line = 1;
  for (let at = 0; at < source.length;) {
    TOKEN.lastIndex = at;
    const groups = TOKEN.exec(source)?.groups;
    if (!groups)
      throw new TranslationError(line, `nothing is known that begins with ${source.slice(at, at + 10)}`);
    const { space, name, number, string, symbol } = groups;
    if (name !== undefined) tokens.push({ kind: WORDS.has(name) ? 'word' : 'name', text: name, line });
    else if (number !== undefined) tokens.push({ kind: 'number', text: number, line });
    else if (string !== undefined)
      tokens.push({ kind: 'string', text: unescaped(string.slice(1, -1), line), line });
    else if (symbol !== undefined) tokens.push({ kind: 'symbol', text: symbol, line });
    const text = (space ?? name ?? number ?? string ?? symbol) as string;
    line += text.split('\n').length - 1;
    at += text.length;
  }
  tokens.push({ kind: 'end', text: 'the end', line });
  return tokens;
}

function unescaped(text: string, line: number): string {
  return text.replace(/\\(\d{1,3}|[^])/g, (_, escape: string) => {
    if (/\d/.test(escape)) return String.fromCharCode(Number(escape));
    const meant = ESCAPES[escape];
    if (meant === undefined) throw new TranslationError(line, `the escape \\${escape} is not known`);
    return meant;
  });
}
