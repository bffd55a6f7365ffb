import { Script } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { AnyFunction } from './metadata.js';
import { signatureOf } from './parameter-names.js';

/** A piece of source text, and whether all of it can be read for certain. */
interface Piece {
  readonly text: string;
  readonly isCertain: boolean;
}

const certain = (text: string): Piece => ({ text, isCertain: true });
const ambiguous = (text: string): Piece => ({ text, isCertain: false });

/** A piece that has others in it. */
function code(strings: TemplateStringsArray, ...pieces: readonly Piece[]): Piece {
  const text = strings.reduce((before, next, i) => `${before}${pieces[i - 1]?.text}${next}`);
  return { text, isCertain: pieces.every(({ isCertain }) => isCertain) };
}

const NUMBERS_AND_NAMES = [
  '1',
  '.5e-3',
  '0xe',
  '1_0n',
  'x',
  '$.y',
  '(void 0)',
  '{}',
  '[]',
  'new Map',
  'this',
];
const TEXTS = [
  String.raw`'a\),('`,
  String.raw`"\\"`,
  '"`${"',
  "'/'",
  "'<!--'",
  "'a\\\n,b'",
  '`),(`',
  '`$`',
  '`$${1}{`',
  '`\\`${1}/`',
  '`/*`',
];
const SLASHES = [
  '/,/',
  '/[)/(]/g',
  String.raw`/\/\),(,)/u`,
  '/`/',
  "/'/",
  '/"/',
  '/{/',
  '/=>/.source',
  'x / y',
  '1 / 2 / 3',
  'x\n/ y /1',
  '(x-->0)',
  '1 <!-- , z\n',
  '1\n--> , z\n',
];

/** Default values that hold what could be taken for the end of a parameter, or hide it. */
const { expression } = fc.letrec<{ expression: Piece }>((tie) => {
  const inner = tie('expression');
  const two = fc.tuple(inner, inner);
  return {
    expression: fc.oneof(
      { maxDepth: 3, depthSize: 'small' },
      { weight: 6, arbitrary: fc.constantFrom(...NUMBERS_AND_NAMES, ...TEXTS).map(certain) },
      { weight: 1, arbitrary: fc.constantFrom(...SLASHES).map(ambiguous) },
      inner.map((a) => code`\`),\${${a}}(\``),
      inner.map((a) => code`\`\${\`\${${a}}\`}}\``),
      inner.map((a) => code`tag\`{\${${a}}\`.z`),
      inner.map((a) => code`[${a}, ...${a}]`),
      inner.map((a) => code`{ k: ${a}, [${a}]: 1, m(a, b) { return ${a}; } }`),
      inner.map((a) => code`(async a => (${a}))(x, y)`),
      inner.map((a) => code`() => { { const a = ${a}; } return [a, b]; }`),
      inner.map((a) => code`function* (a, b = ${a}) { yield a; }`),
      inner.map((a) => code`class { #p = ${a}; static m(a, b) {} get [${a}]() { return 1; } }`),
      inner.map((a) => code`(cov_1x().b[0][0]++, ${a})`),
      two.map(([a, b]) => code`(${a}) === (${b})`),
      two.map(([a, b]) => code`(${a}) >= (${b}) ? (${b}) : x => (${b})`),
      two.map(([a, b]) => code`f(${a}, ${b})?.[0]`),
    ),
  };
});

const BLANKS = ['', '', ' ', '\n', '\t', '/* ), ( */', '/* ` */', "/*'*/", '/**/', '/*/ , /*/'];
const COMMENTS_OF_LINES = ['// , ) {\n', '// "\r', '//`\u2028', '//\n//(\n'];
const blanks = fc.array(fc.constantFrom(...BLANKS, ...COMMENTS_OF_LINES), { minLength: 4, maxLength: 4 });

/** One parameter as written, and what is true of it. */
interface Written extends Piece {
  readonly name: string | undefined;
  readonly kind: 'plain' | 'open';
}

function patternOf(name: string, value: Piece): readonly Piece[] {
  const [own, others] = [certain(name), certain(`${name}9`)];
  return [
    code`{ ${own} }`,
    code`{ a: { ['b)']: [${own}] }, ...${others} }`,
    code`{ ${own} = ${value} }`,
    code`[, ${own} = ${value}]`,
  ];
}

function written(name: string, value: Piece): readonly Written[] {
  const patterns = patternOf(name, value);
  return [
    { name, kind: 'plain', ...certain(name) },
    { name, kind: 'open', ...code`${certain(name)} = ${value}` },
    ...patterns.map((it): Written => ({ name: undefined, kind: 'plain', ...it })),
    ...patterns.map((it): Written => ({ name: undefined, kind: 'open', ...code`${it} = ${value}` })),
    { name: undefined, kind: 'open', ...code`...${certain(name)}` },
    ...patterns.map((it): Written => ({ name: undefined, kind: 'open', ...code`...${it}` })),
  ];
}

const NAMES = ['id', 'count', 'async', 'get', 'of', '$', '_1', 'sku$', 'ключ', 'ｎ', 'a\u200cb', 'function1'];
const parameterList = fc.shuffledSubarray(NAMES, { maxLength: 5 }).chain((names) => {
  const last = names.length - 1;
  const parameters = names.map((name, i) =>
    fc.tuple(expression, fc.oneof(fc.constantFrom(0, 1), fc.nat(99))).map(([value, form]) =>
      written(name, value)
        .filter((it) => i === last || !it.text.startsWith('...'))
        .at(form % 10)!,
    ),
  );
  return fc.tuple(...parameters);
});

const inObject =
  (head: string) =>
  (list: string, [a]: readonly string[]) =>
    `Object.values({ ${head}${a}(${list}) {} })[0]`;

/** All kinds of functions that have such a list. */
const FUNCTIONS: readonly ((list: string, blanks: readonly string[]) => string)[] = [
  ...['run', 'async run', 'async *run', '*run', 'async', 'get', 'of', 'function', 'class'].map(inObject),
  ...["'a(b, c'", '"=>"', "['x(y)']", '[`a${`(`}`]', '[["b)"][0]]', '1.5e+3', '.5', 'async [`(`]'].map(
    inObject,
  ),
  (list, [a]) => `class { #p${a}(${list}) {} static of() { return new this().#p } }.of()`,
  (list, [a]) => `class { static async *${a} static(${list}) {} }.static`,
  (list, [a, b]) => `function${a}(${list})${b}{}`,
  (list, [a, b]) => `async function${a}*${b} run(${list}) {}`,
  (list, [a]) => `(${list}) =>${a}0`,
  (list) => `async (${list}) => ({ a: 1 })`,
];

const evaluate = (source: string): AnyFunction =>
  new Script(`(${source}\n)`).runInThisContext() as AnyFunction;

describe('the parameters of a function', () => {
  it('are never read at a wrong position, whatever stands between them, and are all read up to the first ambiguous slash', () => {
    fc.assert(
      fc.property(
        parameterList,
        blanks,
        fc.constantFrom(...FUNCTIONS),
        fc.boolean(),
        (list, gaps, around, hasComma) => {
          const [a, b, c, d] = gaps;
          const isRest = list.at(-1)?.text.startsWith('...') ?? true;
          const text =
            list.map((it) => `${a}${it.text}${b}`).join(`,${c}`) + (hasComma && !isRest ? `,${d}` : '');
          const fn = evaluate(around(text, gaps));
          const truth = list.map(({ name, kind }) => ({ name, kind }));
          const open = truth.findIndex(({ kind }) => kind === 'open');
          expect(fn).toHaveLength(open < 0 ? truth.length : open);

          const { parameters, gap } = signatureOf(fn);
          expect(parameters).toEqual(truth.slice(0, parameters.length));
          const firstAmbiguous = list.findIndex(({ isCertain }) => !isCertain);
          const isWhole = firstAmbiguous < 0;
          expect(gap === undefined).toBe(isWhole);
          expect(parameters.length).toBeGreaterThanOrEqual(isWhole ? truth.length : firstAmbiguous);
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each([
    ['id => id', ['id']],
    ['async id => id', ['id']],
    ['async => async', ['async']],
    ['(id, count) => /,/', ['id', 'count']],
    ['function (id) { return 1 / 2 }', ['id']],
    ['Object.values({ async run(r=/,/,n,t){return[r,n,t]} })[0]', ['r']],
    ['Object.values({ async half(r=(cov_1().b[1][0]++,total/2),n){return n} })[0]', ['r']],
    ['Object.values({ [/\\(id, count/.source](count, id) {} })[0]', []],
    ['(a = 1 <!-- , z\n, id) => 0', ['a']],
    ['(a = 1\n--> , z\n, id) => 0', ['a']],
    ['Object.values({ run(\\u0069d, id2) {} })[0]', []],
    ['class Orders { constructor(id) {} }', []],
    ['class Orders extends (id => class {})(1) {}', []],
    ['Function("a /*", "*/, b", "return a")', ['a', 'b']],
  ])('of %p are %p', (source, names) => {
    expect(signatureOf(evaluate(source)).parameters.map(({ name }) => name)).toEqual(names);
  });

  it.each<readonly [string, AnyFunction]>([
    ['a bound function', function (this: void, _id: string) {}.bind(undefined)],
    ['a function of the engine', Math.max],
    ['a Proxy', new Proxy((id: string) => id, {})],
    [
      'a wrapper that has the length of the method',
      Object.defineProperty((...args: unknown[]) => args, 'length', { value: 2 }),
    ],
  ])('are unknown of %s', (_what, fn) => {
    const { parameters, gap } = signatureOf(fn);
    expect(parameters).toEqual([]);
    expect(gap).toContain('put @Locked nearest to the method');
  });
});
