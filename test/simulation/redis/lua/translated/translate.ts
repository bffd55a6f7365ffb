import { tokensOf, TranslationError, type Token } from './lexer.js';

/** An expression in JavaScript. `many` may give several values as a list; of the others one knows their type. */
interface Code {
  readonly text: string;
  readonly kind: 'value' | 'number' | 'string' | 'boolean' | 'many';
  /** The same as a condition, if that is shorter. */
  readonly test?: string;
}

interface Local {
  readonly name: string;
  /** It never has another value than this function. */
  readonly isFunction: boolean;
}

const PRIORITIES: Readonly<Record<string, readonly [left: number, right: number]>> = {
  or: [1, 1],
  and: [2, 2],
  '<': [3, 3],
  '>': [3, 3],
  '<=': [3, 3],
  '>=': [3, 3],
  '~=': [3, 3],
  '==': [3, 3],
  '..': [5, 4],
  '+': [6, 6],
  '-': [6, 6],
  '*': [7, 7],
  '/': [7, 7],
  '%': [7, 7],
};
const UNARY = 8;
const COMPARISONS: Readonly<Record<string, string>> = {
  '<': 'less',
  '<=': 'lessOrEqual',
  '>': 'greater',
  '>=': 'greaterOrEqual',
};

/** What there is beside locals: the name in JavaScript, and the type of a call of it. */
const GLOBALS: Readonly<Record<string, readonly [name: string, kind: Code['kind']]>> = {
  tonumber: ['tonumber', 'value'],
  tostring: ['tostring', 'string'],
  type: ['typeOf', 'string'],
  pcall: ['pcall', 'many'],
  unpack: ['unpack', 'many'],
  'math.max': ['math_max', 'number'],
  'math.min': ['math_min', 'number'],
  'math.floor': ['math_floor', 'number'],
  'table.concat': ['table_concat', 'string'],
  'string.sub': ['string_sub', 'string'],
  'string.byte': ['string_byte', 'many'],
  'string.char': ['string_char', 'string'],
  'string.len': ['string_len', 'number'],
  'string.find': ['string_find', 'many'],
  'string.match': ['string_match', 'many'],
  'string.gsub': ['string_gsub', 'many'],
  'string.format': ['string_format', 'string'],
  'redis.error_reply': ['redis_error_reply', 'value'],
  'redis.status_reply': ['redis_status_reply', 'value'],
  'cjson.decode': ['cjson_decode', 'value'],
  'cjson.encode': ['cjson_encode', 'string'],
};
/** Their commands say where they failed, so that they are called with the line. */
const COMMANDS: Readonly<Record<string, string>> = {
  'redis.call': 'redis_call',
  'redis.pcall': 'redis_pcall',
};
/** What Redis has, and no script of ours. */
const UNKNOWN_GLOBALS: ReadonlySet<string> = new Set(
  'assert bit cmsgpack collectgarbage coroutine error getmetatable ipairs load loadstring next pairs rawequal rawget rawset select setmetatable struct xpcall _G _VERSION'.split(
    ' ',
  ),
);
const LIBRARIES: ReadonlySet<string> = new Set(['math', 'table', 'string', 'redis', 'cjson']);

/**
 * The body of a function in JavaScript that returns the script as a function of `KEYS` and `ARGV`. It expects the names of `values.ts`,
 * `library.ts` and `cjson.ts`, and `redis_call` and `redis_pcall`.
 *
 * @throws TranslationError for Lua that it does not know
 */
export function javaScriptOf(source: string): string {
  return new Translator(tokensOf(source)).script();
}

/** Reads Lua and writes JavaScript in one pass. */
class Translator {
  private at = 0;
  private lastId = 0;
  private scopes: Map<string, Local>[] = [];
  /** Variables of each function that is open, for what `and` and `or` look at twice. */
  private readonly temporaries: string[][] = [];

  constructor(private readonly tokens: readonly Token[]) {}

  script(): string {
    const body = this.functionBody(new Map());
    this.expect('the end', 'end');
    return `"use strict"; return (KEYS, ARGV) => {\n${body}\n};`;
  }

  private functionBody(parameters: Map<string, Local>): string {
    this.temporaries.push([]);
    this.scopes.push(parameters);
    const body = this.statements();
    this.scopes.pop();
    const names = this.temporaries.pop() as string[];
    const declared = names.length > 0 ? `let ${names.join(', ')};\n` : '';
    return `${declared}${body}`;
  }

  private block(): string {
    this.scopes.push(new Map());
    const body = this.statements();
    this.scopes.pop();
    return body;
  }

  private statements(): string {
    const lines: string[] = [];
    while (!this.isAtBlockEnd()) {
      const isLast = this.is('return');
      const line = this.statement();
      if (line !== '') lines.push(line);
      if (isLast) return lines.join('\n');
    }
    return lines.join('\n');
  }

  private isAtBlockEnd(): boolean {
    const { kind, text } = this.token;
    return kind === 'end' || (kind === 'word' && ['end', 'else', 'elseif', 'until'].includes(text));
  }

  private statement(): string {
    const { kind, text } = this.token;
    if (this.take(';')) return '';
    if (kind !== 'word') return this.assignmentOrCall();
    switch (text) {
      case 'local':
        this.next();
        return this.take('function') ? this.localFunction() : this.locals();
      case 'if':
        return this.ifs();
      case 'while': {
        this.next();
        const test = condition(this.expression());
        this.expect('do');
        const body = this.block();
        this.expect('end');
        return `while (${test}) {\n${body}\n}`;
      }
      case 'repeat': {
        this.next();
        this.scopes.push(new Map());
        const body = this.statements();
        this.expect('until');
        const test = condition(this.expression());
        this.scopes.pop();
        return `for (;;) {\n${body}\nif (${test}) break;\n}`;
      }
      case 'for':
        return this.forLoop();
      case 'do': {
        this.next();
        const body = this.block();
        this.expect('end');
        return `{\n${body}\n}`;
      }
      case 'return':
        return this.returned();
      case 'break':
        this.next();
        return 'break;';
      default:
        return this.fail(`${text} is not known`);
    }
  }

  private returned(): string {
    this.expect('return');
    const values = this.isAtBlockEnd() || this.is(';') ? [] : this.expressions();
    this.take(';');
    if (!this.isAtBlockEnd()) this.fail('return is the last statement of a block');
    const [first, ...others] = values;
    // A call in this place gives all of its values.
    if (first && others.length === 0) return `return ${first.text};`;
    return `return [${listed(values)}];`;
  }

  private localFunction(): string {
    const name = this.name();
    const local = this.declare(name, true);
    return `const ${local} = ${this.functionOf(name)};`;
  }

  private functionOf(name: string): string {
    this.expect('(');
    const parameters = new Map<string, Local>();
    const names: string[] = [];
    while (!this.is(')')) {
      const parameter = this.name();
      const local = { name: this.unique(parameter), isFunction: false };
      parameters.set(parameter, local);
      names.push(local.name);
      if (!this.is(')')) this.expect(',');
    }
    this.expect(')');
    const body = this.functionBody(parameters);
    this.expect('end');
    return `function ${this.unique(name)}(${names.join(', ')}) {\n${body}\n}`;
  }

  private locals(): string {
    const names = [this.name()];
    while (this.take(',')) names.push(this.name());
    // The new names are known behind the statement alone.
    const values = this.take('=') ? this.expressions() : [];
    const texts = this.spread(values, names.length);
    if (typeof texts === 'string')
      return `let [${names.map((it) => this.declare(it)).join(', ')}] = ${texts};`;
    return `let ${names.map((it, i) => `${this.declare(it)} = ${texts[i]}`).join(', ')};`;
  }

  /** So many values: each by itself, or all in one list. */
  private spread(values: readonly Code[], count: number): readonly string[] | string {
    const last = values.at(-1);
    if (last?.kind === 'many' && values.length < count)
      return values.length === 1 ? `many(${last.text})` : `[${listed(values)}]`;
    if (values.length > count) this.fail('there are more values than names');
    return Array.from({ length: count }, (_, i) => (values[i] ? single(values[i]) : 'undefined'));
  }

  private ifs(): string {
    this.expect('if');
    const test = condition(this.expression());
    this.expect('then');
    let text = `if (${test}) {\n${this.block()}\n}`;
    if (this.is('elseif')) {
      // The rest is an `if` of its own, whose `end` is that of both.
      this.replace('if');
      return `${text} else ${this.ifs()}`;
    }
    if (this.take('else')) text += ` else {\n${this.block()}\n}`;
    this.expect('end');
    return text;
  }

  private forLoop(): string {
    this.expect('for');
    const names = [this.name()];
    while (this.take(',')) names.push(this.name());
    return this.take('=') ? this.countingLoop(names) : this.listLoop(names);
  }

  private countingLoop([name = '']: readonly string[]): string {
    const from = numeric(this.expression());
    this.expect(',');
    const to = numeric(this.expression());
    const step = this.take(',') ? this.token.text : '1';
    if (step !== '1') {
      if (this.token.kind !== 'number') this.fail('the step of a loop is a number that is written there');
      this.next();
    }
    this.expect('do');
    const [i, end] = [this.unique('i'), this.unique('end')];
    const [variable, body] = this.loopBody([name]);
    return `for (let ${i} = ${from}, ${end} = ${to}; ${i} <= ${end}; ${i} += ${step}) {\nlet ${variable} = ${i};\n${body}\n}`;
  }

  private listLoop(names: readonly string[]): string {
    this.expect('in');
    if (this.token.text !== 'ipairs' || this.findLocal('ipairs'))
      this.fail('of loops over tables only those by ipairs are known');
    this.next();
    this.expect('(');
    const list = single(this.expression());
    this.expect(')');
    this.expect('do');
    if (names.length !== 2) this.fail('ipairs gives two values');
    const [table, i, item] = [this.unique('list'), this.unique('i'), this.unique('item')];
    const [number, value, body] = this.loopBody(names);
    return `for (let ${table} = ${list}, ${i} = 1, ${item}; (${item} = index(${table}, ${i})) !== undefined; ${i}++) {\nlet ${number} = ${i}, ${value} = ${item};\n${body}\n}`;
  }

  private loopBody(names: readonly string[]): readonly string[] {
    this.scopes.push(new Map());
    const variables = names.map((name) => this.declare(name));
    const body = this.block();
    this.scopes.pop();
    this.expect('end');
    return [...variables, body];
  }

  private assignmentOrCall(): string {
    const targets: string[] = [];
    for (;;) {
      const { target, code } = this.suffixed();
      if (target === undefined) {
        if (code.kind !== 'many' && !code.text.endsWith(')')) this.fail('an expression is no statement');
        return `${code.text};`;
      }
      targets.push(target);
      if (!this.take(',')) break;
    }
    this.expect('=');
    const values = this.expressions();
    const texts = this.spread(values, targets.length);
    if (typeof texts !== 'string' && texts.length === 1)
      return `${targets[0]?.replace('\0', () => texts[0] as string)};`;
    const all = this.unique('values');
    const given = typeof texts === 'string' ? texts : `[${texts.join(', ')}]`;
    const lines = targets.map((target, i) => `${target.replace('\0', () => `${all}[${i}]`)};`);
    // As in Lua, the last one first.
    return `const ${all} = ${given};\n${lines.toReversed().join('\n')}`;
  }

  /** A name with all its indexes and calls. `target` assigns `\0` to it. */
  private suffixed(): { readonly code: Code; readonly target?: string } {
    let { code, target, isFunction } = this.primary();
    for (;;) {
      const { line } = this.token;
      if (this.take('.')) {
        const key = JSON.stringify(this.name());
        target = `setIndex(${single(code)}, ${key}, \0)`;
        code = { text: `index(${single(code)}, ${key})`, kind: 'value' };
      } else if (this.take('[')) {
        const key = single(this.expression());
        this.expect(']');
        target = `setIndex(${single(code)}, ${key}, \0)`;
        code = { text: `index(${single(code)}, ${key})`, kind: 'value' };
      } else if (this.take('(')) {
        const args = this.is(')') ? [] : this.expressions();
        this.expect(')');
        code = isFunction
          ? { text: `${code.text}(${listed(args)})`, kind: 'many' }
          : { text: `callable(${single(code)})(${listed(args)})`, kind: 'many' };
        target = undefined;
      } else {
        if (this.is(':') || this.is('{') || this.token.kind === 'string')
          throw new TranslationError(line, 'a call is written with parentheses, and without a colon');
        return target === undefined ? { code } : { code, target };
      }
      isFunction = false;
    }
  }

  private primary(): { code: Code; target: string | undefined; isFunction: boolean } {
    if (this.take('(')) {
      const code = single(this.expression());
      this.expect(')');
      return { code: { text: `(${code})`, kind: 'value' }, target: undefined, isFunction: false };
    }
    const { line } = this.token;
    let name = this.name();
    const local = this.findLocal(name);
    if (local) {
      const target = local.isFunction ? undefined : `${local.name} = \0`;
      return { code: { text: local.name, kind: 'value' }, target, isFunction: local.isFunction };
    }
    if (name === 'KEYS' || name === 'ARGV')
      return { code: { text: name, kind: 'value' }, target: undefined, isFunction: false };
    if (LIBRARIES.has(name)) {
      this.expect('.');
      name = `${name}.${this.name()}`;
    }
    if (name === 'cjson.null')
      return { code: { text: 'NULL', kind: 'value' }, target: undefined, isFunction: false };
    const command = COMMANDS[name];
    if (command !== undefined) {
      this.expect('(');
      const args = this.is(')') ? [] : this.expressions();
      this.expect(')');
      const text = `${command}(${line}, [${listed(args)}])`;
      return { code: { text, kind: 'value' }, target: undefined, isFunction: false };
    }
    const global = GLOBALS[name];
    if (!global) {
      if (name.includes('.') || UNKNOWN_GLOBALS.has(name)) this.fail(`${name} is not known`);
      if (this.is('=')) this.fail('a global cannot be set');
      // An included file may have functions that the script never calls, and that need what it does not have.
      const text = `missingGlobal(${JSON.stringify(name)})`;
      return { code: { text, kind: 'value' }, target: undefined, isFunction: false };
    }
    const [known, kind] = global;
    if (!this.take('('))
      return { code: { text: known, kind: 'value' }, target: undefined, isFunction: false };
    const args = this.is(')') ? [] : this.expressions();
    this.expect(')');
    return { code: { text: `${known}(${listed(args)})`, kind }, target: undefined, isFunction: false };
  }

  private expressions(): readonly Code[] {
    const all = [this.expression()];
    while (this.take(',')) all.push(this.expression());
    return all;
  }

  private expression(limit = 0): Code {
    let left = this.unary();
    for (;;) {
      const { kind, text: operator } = this.token;
      const [priority, right] = (kind === 'symbol' || kind === 'word' ? PRIORITIES[operator] : undefined) ?? [
        0, 0,
      ];
      if (priority <= limit) {
        if (kind === 'symbol' && operator === '^') this.fail('^ is not known');
        return left;
      }
      this.next();
      left = this.binary(operator, left, this.expression(right));
    }
  }

  private unary(): Code {
    if (this.take('not'))
      return { text: `!${asOperand(condition(this.expression(UNARY)))}`, kind: 'boolean' };
    if (this.take('-')) return { text: `(-${numeric(this.expression(UNARY))})`, kind: 'number' };
    if (this.take('#')) return { text: `lengthOf(${single(this.expression(UNARY))})`, kind: 'number' };
    return this.simple();
  }

  private simple(): Code {
    const { kind, text } = this.token;
    if (kind === 'number') {
      this.next();
      return { text: String(Number(text)), kind: 'number' };
    }
    if (kind === 'string') {
      this.next();
      return { text: JSON.stringify(text), kind: 'string' };
    }
    if (this.take('nil')) return { text: 'undefined', kind: 'value' };
    if (this.take('true')) return { text: 'true', kind: 'boolean' };
    if (this.take('false')) return { text: 'false', kind: 'boolean' };
    if (this.take('function')) return { text: `(${this.functionOf('anonymous')})`, kind: 'value' };
    if (this.is('{')) return this.table();
    return this.suffixed().code;
  }

  private table(): Code {
    this.expect('{');
    const items: Code[] = [];
    const fields: string[] = [];
    while (!this.is('}')) {
      if (this.take('[')) {
        const key = single(this.expression());
        this.expect(']');
        this.expect('=');
        fields.push(key, single(this.expression()));
      } else if (this.token.kind === 'name' && this.tokens[this.at + 1]?.text === '=') {
        const key = JSON.stringify(this.name());
        this.expect('=');
        fields.push(key, single(this.expression()));
      } else items.push(this.expression());
      if (!this.take(',') && !this.take(';')) break;
    }
    this.expect('}');
    return { text: `tableOf([${listed(items)}], [${fields.join(', ')}])`, kind: 'value' };
  }

  private binary(operator: string, left: Code, right: Code): Code {
    const [a, b] = [single(left), single(right)];
    switch (operator) {
      case 'and':
      case 'or': {
        const isAnd = operator === 'and';
        const test = `(${condition(left)} ${isAnd ? '&&' : '||'} ${condition(right)})`;
        if (left.kind === 'boolean' && right.kind === 'boolean') return { text: test, kind: 'boolean' };
        const it = this.temporary();
        const text = `(isTrue(${it} = ${a}) ? ${isAnd ? b : it} : ${isAnd ? it : b})`;
        return { text, kind: 'value', test };
      }
      case '==':
        return { text: `(${a} === ${b})`, kind: 'boolean' };
      case '~=':
        return { text: `(${a} !== ${b})`, kind: 'boolean' };
      case '<':
      case '<=':
      case '>':
      case '>=': {
        if (left.kind === 'number' && right.kind === 'number')
          return { text: `(${a} ${operator} ${b})`, kind: 'boolean' };
        return { text: `${COMPARISONS[operator]}(${a}, ${b})`, kind: 'boolean' };
      }
      case '..':
        return { text: `(${textual(left)} + ${textual(right)})`, kind: 'string' };
      case '%':
        return { text: `modulo(${numeric(left)}, ${numeric(right)})`, kind: 'number' };
      default:
        return { text: `(${numeric(left)} ${operator} ${numeric(right)})`, kind: 'number' };
    }
  }

  private temporary(): string {
    const name = this.unique('it');
    this.temporaries.at(-1)?.push(name);
    return name;
  }

  private declare(name: string, isFunction = false): string {
    const local = { name: this.unique(name), isFunction };
    this.scopes.at(-1)?.set(name, local);
    return local.name;
  }

  private findLocal(name: string): Local | undefined {
    return this.scopes.findLast((scope) => scope.has(name))?.get(name);
  }

  /** No word of JavaScript has a `$` and a number. */
  private unique(name: string): string {
    this.lastId += 1;
    return `${name}$${this.lastId}`;
  }

  private get token(): Token {
    return this.tokens[this.at] as Token;
  }

  private next(): void {
    this.at += 1;
  }

  /** `elseif` is read again as `if`. */
  private replace(text: string): void {
    (this.tokens as Token[])[this.at] = { ...this.token, text };
  }

  private is(text: string): boolean {
    return this.token.text === text && (this.token.kind === 'symbol' || this.token.kind === 'word');
  }

  private take(text: string): boolean {
    if (!this.is(text)) return false;
    this.next();
    return true;
  }

  private expect(text: string, kind?: Token['kind']): void {
    if (kind === undefined ? this.is(text) : this.token.kind === kind) this.next();
    else this.fail(`${text} is expected, and not ${this.token.text}`);
  }

  private name(): string {
    const { kind, text } = this.token;
    if (kind !== 'name') this.fail(`a name is expected, and not ${text}`);
    this.next();
    return text;
  }

  private fail(what: string): never {
    throw new TranslationError(this.token.line, what);
  }
}

function single({ text, kind }: Code): string {
  return kind === 'many' ? `one(${text})` : text;
}

/** As arguments, or items of a list: the last one gives all of its values. */
function listed(codes: readonly Code[]): string {
  return codes
    .map((code, i) =>
      code.kind === 'many' && i === codes.length - 1 ? `...many(${code.text})` : single(code),
    )
    .join(', ');
}

function condition(code: Code): string {
  if (code.test !== undefined) return code.test;
  return code.kind === 'boolean' ? code.text : `isTrue(${single(code)})`;
}

function asOperand(text: string): string {
  return `(${text})`;
}

function numeric(code: Code): string {
  return code.kind === 'number' ? code.text : `numberOf(${single(code)})`;
}

function textual(code: Code): string {
  return code.kind === 'string' ? code.text : `textOf(${single(code)})`;
}
