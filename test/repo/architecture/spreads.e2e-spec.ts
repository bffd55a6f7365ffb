import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const SRC = fileURLToPath(new URL('../../../libs/distributed-lock/src/', import.meta.url));

/** Calls with as many arguments as a list has, and why that list is never long. */
const SHORT_LISTS: Readonly<Record<string, string>> = {
  'client.eval(script, keys.length, ...keys, ...args)': 'fencedRedis refuses more than 20 000 words',
  'this.client.call(command, ...args)': 'at most 50 renewals or 100 keys are in one command',
  'this.connection.call(command, ...args)': 'at most 50 renewals or 100 keys are in one command',
  'this.client.subscribe(...channels.slice(i, i + MAX_CHANNELS))': 'at most 1000',
  'Object.assign({}, ...methods)': 'the services of etcd that are used',
};

/** The calls in a file that pass a list on as arguments, except the arguments that their own function was called with. */
function spreadsIn(name: string, text: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const given = ts.isCallExpression(node) || ts.isNewExpression(node) ? node.arguments : undefined;
    const isLong = given?.some(
      (it) => ts.isSpreadElement(it) && !isForwarded(it.expression) && !isConstant(it.expression),
    );
    if (isLong) found.push(node.getText());
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true));
  return found;
}

/** A list that stands in the source. */
function isConstant(expression: ts.Expression): boolean {
  return /^[A-Z][A-Z_]*$/.test(expression.getText());
}

/** Whether `expression` is the rest parameter of a function around it. */
function isForwarded(expression: ts.Expression): boolean {
  let inner = expression;
  while (ts.isParenthesizedExpression(inner) || ts.isAsExpression(inner)) inner = inner.expression;
  const name = inner.getText();
  const isRest = (it: ts.ParameterDeclaration) =>
    it.dotDotDotToken !== undefined && it.name.getText() === name;
  const isDeclaring = (node: ts.Node) => ts.isFunctionLike(node) && node.parameters.some(isRest);
  return ts.findAncestor(expression, isDeclaring) !== undefined;
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => /\.(ts|js)$/.test(file) && !/\.spec\.ts$|\.generated\.ts$/.test(file));

describe('a function of the library', () => {
  const found = files.flatMap((file) => spreadsIn(file, readFileSync(SRC + file, 'utf8')));

  it('is never called with as many arguments as there are locks: more than about 100 000 are a RangeError', () => {
    expect(found.filter((call) => !(call in SHORT_LISTS))).toEqual([]);
  });

  it('is called with a list as arguments where this suite says so, and nowhere else', () => {
    expect(Object.keys(SHORT_LISTS).filter((call) => !found.includes(call))).toEqual([]);
  });

  it('would be seen to be called so', () => {
    const text = `
      const longest = Math.max(0, ...holds.map(({ ms }) => ms));
      all.push(...more);
      new Set(...sets);
      String.fromCharCode(...codes);
      function forward(...args: unknown[]) { return other(...args, ...(args as [])); }
      const list = [...all, ...more];`;
    expect(spreadsIn('bad.ts', text)).toHaveLength(4);
  });
});
