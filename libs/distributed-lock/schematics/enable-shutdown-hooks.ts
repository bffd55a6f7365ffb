import type ts from 'typescript';
import { byHand, type Outcome, type SourceText } from './source-text.js';

const FACTORY_METHODS = new Set(['create', 'createMicroservice', 'createApplicationContext']);

/** Calls of `NestFactory` that make an application. */
export function applicationsOf(source: SourceText): ts.CallExpression[] {
  const { ts } = source;
  const isCreation = (node: ts.Node): node is ts.CallExpression =>
    ts.isCallExpression(node) &&
    ts.isPropertyAccessExpression(node.expression) &&
    ts.isIdentifier(node.expression.expression) &&
    node.expression.expression.text === 'NestFactory' &&
    FACTORY_METHODS.has(node.expression.name.text);
  return source.find(isCreation);
}

/** Adds `app.enableShutdownHooks()` behind the statement that makes each application. */
export function enableShutdownHooks(source: SourceText): Outcome {
  if (source.hasSyntaxErrors) return byHand('the file has syntax errors');
  const applications = applicationsOf(source);
  if (applications.length === 0) return byHand('it has no call of NestFactory.create');
  for (const call of applications) {
    const kept = placeholderOf(source, call);
    if (typeof kept === 'string') return byHand(kept);
    if (kept && !isEnabled(source, kept.name)) insertCall(source, kept);
  }
  return source.finish();
}

interface Kept {
  readonly name: string;
  readonly statement: ts.Statement;
}

/** The variable that keeps the application; `undefined` if the hooks are enabled in the same expression. */
function placeholderOf(source: SourceText, call: ts.CallExpression): Kept | string | undefined {
  const { ts } = source;
  let node: ts.Node = call;
  let isAwaited = false;
  while (isWrapper(source, node.parent)) {
    node = node.parent;
    isAwaited ||= ts.isAwaitExpression(node);
  }
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent) && parent.name.text === 'enableShutdownHooks') return undefined;
  if (!isAwaited) return 'the result of NestFactory is not awaited where it is made';
  if (ts.isVariableDeclaration(parent) && ts.isIdentifier(parent.name)) {
    return inBlock(source, parent.name.text, parent.parent.parent);
  }
  if (ts.isBinaryExpression(parent) && ts.isIdentifier(parent.left)) {
    return inBlock(source, parent.left.text, parent.parent);
  }
  return 'the application is not kept in a variable';
}

function isWrapper({ ts }: SourceText, node: ts.Node): boolean {
  return (
    ts.isAwaitExpression(node) ||
    ts.isParenthesizedExpression(node) ||
    ts.isAsExpression(node) ||
    ts.isSatisfiesExpression(node) ||
    ts.isNonNullExpression(node)
  );
}

function inBlock({ ts }: SourceText, name: string, statement: ts.Node): Kept | string {
  const isStatement = ts.isVariableStatement(statement) || ts.isExpressionStatement(statement);
  const { parent } = statement;
  return isStatement && (ts.isBlock(parent) || ts.isSourceFile(parent))
    ? { name, statement }
    : 'the application is not made in a statement of its own';
}

function isEnabled(source: SourceText, name: string): boolean {
  const { ts } = source;
  const isCall = (node: ts.Node): node is ts.PropertyAccessExpression =>
    ts.isPropertyAccessExpression(node) &&
    ts.isIdentifier(node.expression) &&
    node.expression.text === name &&
    node.name.text === 'enableShutdownHooks';
  return source.find(isCall).length > 0;
}

function insertCall(source: SourceText, { name, statement }: Kept): void {
  const { file } = source;
  const end = statement.getText(file).endsWith(';') ? ';' : '';
  const line = `${name}.enableShutdownHooks()${end}`;
  const after = source.afterComments(statement.end);
  if (!source.isLastOfLine(after)) return source.insert(statement.end, ` ${line}`);
  source.insert(after, `${source.eol}${source.indentAt(statement.getStart(file))}${line}`);
}
