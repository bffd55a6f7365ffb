import type ts from 'typescript';
import type { TypeScript } from './load-typescript.js';

/** `by-hand`: this command does not change a file of this form. `reason` completes the sentence "… by hand, because". */
export type Outcome =
  | { readonly kind: 'changed'; readonly text: string }
  | { readonly kind: 'present' }
  | { readonly kind: 'by-hand'; readonly reason: string };

export const byHand = (reason: string): Outcome => ({ kind: 'by-hand', reason });

interface Edit {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** Wider lines are broken, as Prettier does by default. */
export const LINE_WIDTH = 80;

/** One source file, its tree, and changes that keep the rest of it as it is: comments, quotes, indents, line ends. */
export class SourceText {
  readonly file: ts.SourceFile;
  readonly eol: string;
  private readonly edits: Edit[] = [];

  constructor(
    readonly ts: TypeScript,
    readonly path: string,
    readonly text: string,
  ) {
    this.file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    this.eol = text.includes('\r\n') ? '\r\n' : '\n';
  }

  get hasSyntaxErrors(): boolean {
    return hasSyntaxErrors(this.file);
  }

  /** Depth first, in the order of the text. */
  find<T extends ts.Node>(isWanted: (node: ts.Node) => node is T, root: ts.Node = this.file): T[] {
    const found: T[] = [];
    const visit = (node: ts.Node): void => {
      if (isWanted(node)) found.push(node);
      node.forEachChild(visit);
    };
    visit(root);
    return found;
  }

  has(name: string): boolean {
    const isIt = (node: ts.Node): node is ts.Identifier => this.ts.isIdentifier(node) && node.text === name;
    return this.find(isIt).length > 0;
  }

  /** The names under which the file uses what is called `name` where it is declared: that name, and each alias. */
  namesOf(name: string): ReadonlySet<string> {
    const { ts } = this;
    type Alias = ts.ImportSpecifier | ts.BindingElement | ts.VariableDeclaration;
    const isAlias = (node: ts.Node): node is Alias => {
      if (ts.isImportSpecifier(node) || ts.isBindingElement(node)) {
        const { propertyName } = node;
        return propertyName !== undefined && ts.isIdentifier(propertyName) && propertyName.text === name;
      }
      if (!ts.isVariableDeclaration(node) || !node.initializer) return false;
      const { initializer } = node;
      const named = ts.isPropertyAccessExpression(initializer) ? initializer.name : initializer;
      return ts.isIdentifier(named) && named.text === name;
    };
    return new Set([name, ...this.find(isAlias).map((alias) => alias.name.getText(this.file))]);
  }

  /** Edits that insert at one place keep the order in which they were made. */
  replace(from: number, to: number, text: string): void {
    this.edits.push({ from, to, text });
  }

  insert(at: number, text: string): void {
    this.replace(at, at, text);
  }

  /** Applies the edits. A result that no longer parses is never given out. */
  finish(): Outcome {
    if (this.edits.length === 0) return { kind: 'present' };
    let changed = '';
    let read = 0;
    for (const { from, to, text } of this.edits.toSorted((a, b) => a.from - b.from)) {
      changed += this.text.slice(read, from) + text;
      read = to;
    }
    changed += this.text.slice(read);
    const parsed = this.ts.createSourceFile(this.path, changed, this.ts.ScriptTarget.Latest, true);
    return hasSyntaxErrors(parsed)
      ? byHand('the file is written in a way that this command cannot change safely')
      : { kind: 'changed', text: changed };
  }

  /** White space before the first character of the line. */
  indentAt(position: number): string {
    const start = this.text.lastIndexOf('\n', position - 1) + 1;
    return /^[ \t]*/.exec(this.text.slice(start, position))?.[0] ?? '';
  }

  /** Where the comments that follow on the same line end. */
  afterComments(position: number): number {
    return this.ts.getTrailingCommentRanges(this.text, position)?.at(-1)?.end ?? position;
  }

  isLastOfLine(position: number): boolean {
    return /^[ \t]*(\r?\n|$)/.test(this.text.slice(position));
  }

  isOneLine(from: number, to: number): boolean {
    return !this.text.slice(from, to).includes('\n');
  }

  /** How many characters of its line stand before the position. */
  columnOf(position: number): number {
    return position - (this.text.lastIndexOf('\n', position - 1) + 1);
  }

  /** One step of indentation, from the first indented line of the file. */
  get step(): string {
    return /^(\t| {2,8})(?=\S)/m.exec(this.text)?.[1] ?? '  ';
  }

  get quote(): string {
    const isText = (node: ts.Node): node is ts.StringLiteral => this.ts.isStringLiteral(node);
    const [first] = this.find(isText);
    return first?.getText(this.file).startsWith('"') ? '"' : "'";
  }

  /** Whether statements end with a semicolon here. */
  get semicolon(): string {
    const statement = this.file.statements.find((it) => this.ts.isImportDeclaration(it));
    return statement && !statement.getText(this.file).endsWith(';') ? '' : ';';
  }

  quoted(code: string): string {
    return this.quote === "'" ? code : code.replaceAll("'", '"');
  }

  /**
   * Adds an entry to a list between brackets: the elements of an array, the names of an import.
   *
   * A list that is on one line stays there if it fits. Entries on lines of their own get one more such line.
   */
  append(list: ts.NodeArray<ts.Node>, brackets: { open: number; close: number }, entry: Entry): void {
    const { open, close } = brackets;
    const last = list.at(-1);
    const inner = this.text.slice(open, close);
    if (!last && inner.trim() !== '') return this.insert(open, `${entry([this.indentAt(open), this.step])} `);
    if (!last || this.isOneLine(open, close)) return this.layOut(list, brackets, entry);
    const first = list[0] as ts.Node;
    const isBlock = !this.isOneLine(open, first.getStart(this.file));
    if (!isBlock) {
      const text = entry([this.indentAt(last.getStart(this.file)), this.step]);
      return list.hasTrailingComma ? this.insert(list.end, ` ${text}`) : this.insert(last.end, `, ${text}`);
    }
    const indent = this.indentAt(last.getStart(this.file));
    const line = `${this.eol}${indent}${entry([indent, this.step])}`;
    if (list.hasTrailingComma) return this.insert(this.afterComments(list.end), `${line},`);
    const after = this.afterComments(last.end);
    if (after === last.end) return this.insert(last.end, `,${line}`);
    this.insert(last.end, ',');
    this.insert(after, line);
  }

  private layOut(
    list: ts.NodeArray<ts.Node>,
    { open, close }: { open: number; close: number },
    entry: Entry,
  ): void {
    const inner = this.text.slice(open, close);
    const indent = this.indentAt(open);
    const last = list.at(-1);
    const short = entry();
    const padding = inner.startsWith(' ') ? ' ' : '';
    const kept = last ? `${this.text.slice(open, last.end).trim()}, ` : '';
    const comments = last ? this.text.slice(list.end, close).trimEnd() : '';
    const line = `${padding}${kept}${short}${comments}${padding}`;
    const rest = /^[^\r\n]*/.exec(this.text.slice(close))?.[0] ?? '';
    if (this.columnOf(open) + line.length + rest.length <= LINE_WIDTH || comments !== '') {
      return this.replace(open, close, line);
    }
    const deeper = `${indent}${this.step}`;
    const lines = [...list.map((it) => it.getText(this.file)), entry([deeper, this.step])];
    const text = lines.map((it) => `${this.eol}${deeper}${it},`).join('');
    this.replace(open, close, `${text}${this.eol}${indent}`);
  }

  /** Makes the file import the name, and returns the name that it has here. */
  import(name: string, from: string): string {
    const { ts } = this;
    const declarations = this.file.statements.filter((it) => ts.isImportDeclaration(it));
    for (const declaration of declarations) {
      const { importClause, moduleSpecifier } = declaration;
      if (!ts.isStringLiteral(moduleSpecifier) || moduleSpecifier.text !== from) continue;
      const names = importClause?.namedBindings;
      if (!importClause || importClause.isTypeOnly || !names || !ts.isNamedImports(names)) continue;
      const there = names.elements.find((it) => (it.propertyName ?? it.name).text === name && !it.isTypeOnly);
      if (there) return there.name.text;
      const here = this.freeName(name);
      const brackets = { open: names.getStart(this.file) + 1, close: names.end - 1 };
      this.append(names.elements, brackets, () => specifier(name, here));
      return here;
    }
    const here = this.freeName(name);
    const last = declarations.at(-1);
    const line = `import { ${specifier(name, here)} } from ${this.quote}${from}${this.quote}${this.semicolon}`;
    if (last) this.insert(this.afterComments(last.end), `${this.eol}${line}`);
    else this.insert(this.file.statements[0]?.getStart(this.file) ?? 0, `${line}${this.eol}`);
    return here;
  }

  private freeName(name: string): string {
    return this.has(name) ? `lock${name[0]?.toUpperCase()}${name.slice(1)}` : name;
  }
}

/** Code of an entry: on one line, or, given its indent and one step, as many as it needs. */
export type Entry = (indents?: readonly [indent: string, step: string]) => string;

const specifier = (name: string, here: string): string => (name === here ? name : `${name} as ${here}`);

function hasSyntaxErrors(file: ts.SourceFile): boolean {
  // Not in the declarations of TypeScript, but there since its first versions.
  const { parseDiagnostics } = file as unknown as { readonly parseDiagnostics?: readonly unknown[] };
  return (parseDiagnostics?.length ?? 0) > 0;
}
