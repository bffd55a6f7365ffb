import type ts from 'typescript';
import { LINE_WIDTH, byHand, type Entry, type Outcome, type SourceText } from './source-text.js';
import { importPathOf, type OfferedStore } from '../src/stores.js';

const PACKAGE = 'nestjs-distributed-lock';

/**
 * Adds `DistributedLockModule.forRoot(…)` to the imports of a Nest module, by the name of its class.
 *
 * Not by the `ModuleDeclarator` of `@nestjs/schematics`, which writes wrong code where this says what to do by hand:
 * docs/decisions/0036-tools-that-were-tried.md
 */
export function registerModule(source: SourceText, className: string, store: OfferedStore): Outcome {
  if (isRegistered(source)) return { kind: 'present' };
  if (source.hasSyntaxErrors) return byHand('the file has syntax errors');
  const metadata = metadataOf(source, className);
  if (typeof metadata === 'string') return byHand(metadata);
  const { ts, file } = source;
  const { properties } = metadata;
  if (properties.some((it) => it.name && ts.isComputedPropertyName(it.name))) {
    return byHand(`the decorator of ${className} has a computed name, which may be that of its imports`);
  }
  const imports = properties.findLast((it) => it.name && nameOf(source, it.name) === 'imports');
  const spread = properties.findLast((it) => ts.isSpreadAssignment(it));
  if (spread && (!imports || spread.pos > imports.pos)) {
    return byHand(`\`${spread.getText(file)}\` in the decorator of ${className} may have imports of its own`);
  }
  const list =
    imports && ts.isPropertyAssignment(imports) ? withoutTypes(source, imports.initializer) : undefined;
  if (list && ts.isArrayLiteralExpression(list)) {
    const brackets = { open: list.getStart(file) + 1, close: list.end - 1 };
    source.append(list.elements, brackets, registration(source, store));
    return source.finish();
  }
  if (imports) return byHand(`the imports of ${className} are not an array that is written in its decorator`);
  addImports(source, metadata, registration(source, store));
  return source.finish();
}

/** Whether the file registers the module already, by whatever name it has there. A comment that mentions it does not count. */
export function isRegistered(source: SourceText): boolean {
  const { ts } = source;
  const names = source.namesOf('DistributedLockModule');
  const isModule = (node: ts.Expression): boolean =>
    ts.isIdentifier(node)
      ? names.has(node.text)
      : ts.isPropertyAccessExpression(node) && node.name.text === 'DistributedLockModule';
  const isRegistration = (node: ts.Node): node is ts.PropertyAccessExpression =>
    ts.isPropertyAccessExpression(node) && node.name.text.startsWith('forRoot') && isModule(node.expression);
  return source.find(isRegistration).length > 0;
}

/** Code that registers the module as the person would write it. */
export function registrationCode({ factory, nestAdd: { argument } }: OfferedStore): string {
  return argument
    ? `DistributedLockModule.forRoot({ store: ${factory}(${argument}) })`
    : 'DistributedLockModule.forRoot()';
}

/** The imports that this code needs. */
export function importLines(store: OfferedStore): string[] {
  const lines = [`import { DistributedLockModule } from '${PACKAGE}';`];
  if (!store.nestAdd.argument) return lines;
  return [...lines, `import { ${store.factory} } from '${importPathOf(store)}';`];
}

/** Imports the names, and makes the entry from the names that they have in this file. */
function registration(source: SourceText, store: OfferedStore): Entry {
  const module = source.import('DistributedLockModule', PACKAGE);
  const { argument } = store.nestAdd;
  if (!argument) return () => `${module}.forRoot()`;
  const factory = source.import(store.factory, importPathOf(store));
  const made = `${factory}(${source.quoted(argument)})`;
  return (indents) => {
    const line = `${module}.forRoot({ store: ${made} })`;
    if (!indents || indents[0].length + line.length < LINE_WIDTH) return line;
    const [indent, step] = indents;
    return [`${module}.forRoot({`, `${indent}${step}store: ${made},`, `${indent}})`].join(source.eol);
  };
}

function metadataOf(source: SourceText, className: string): ts.ObjectLiteralExpression | string {
  const { ts } = source;
  const isClass = (node: ts.Node): node is ts.ClassDeclaration =>
    ts.isClassDeclaration(node) && node.name?.text === className;
  const [found] = source.find(isClass);
  if (!found) return `it declares no class ${className}`;
  for (const { expression } of ts.getDecorators(found) ?? []) {
    const isModule =
      ts.isCallExpression(expression) &&
      ts.isIdentifier(expression.expression) &&
      expression.expression.text === 'Module';
    if (!isModule) continue;
    const [argument] = expression.arguments;
    const metadata = argument && withoutTypes(source, argument);
    return metadata && ts.isObjectLiteralExpression(metadata)
      ? metadata
      : `the decorator of ${className} has no object that is written in it`;
  }
  return `${className} has no decorator @Module`;
}

function addImports(source: SourceText, metadata: ts.ObjectLiteralExpression, entry: Entry): void {
  const open = metadata.getStart(source.file) + 1;
  const close = metadata.end - 1;
  const indent = source.indentAt(open);
  const [first] = metadata.properties;
  if (first && source.isOneLine(open, first.getStart(source.file))) {
    return source.insert(open, ` imports: [${entry()}],`);
  }
  const deeper = first ? source.indentAt(first.getStart(source.file)) : `${indent}${source.step}`;
  const text = `${source.eol}${deeper}imports: [${entry([deeper, source.step])}],`;
  const isEmpty = source.text.slice(open, close).trim() === '';
  if (isEmpty) return source.replace(open, close, `${text}${source.eol}${indent}`);
  source.insert(source.afterComments(open), text);
}

function withoutTypes({ ts }: SourceText, node: ts.Expression): ts.Expression {
  let inner = node;
  while (ts.isAsExpression(inner) || ts.isSatisfiesExpression(inner) || ts.isParenthesizedExpression(inner)) {
    inner = inner.expression;
  }
  return inner;
}

function nameOf({ ts }: SourceText, name: ts.PropertyName): string | undefined {
  return ts.isIdentifier(name) || ts.isStringLiteral(name) ? name.text : undefined;
}
