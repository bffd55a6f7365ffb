// Every export of every entry point of the package, as the build declares it.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { ENTRY_POINTS } from '../entry-points.mjs';

const path = (relative) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const MODULES = path('dist/library/');
const SOURCES = path('libs/distributed-lock/src/');

/**
 * @typedef {object} Export
 * @property {string} name
 * @property {string[]} paths what one imports it from
 * @property {ts.Statement[]} statements its declarations, several for an overloaded function
 * @property {readonly ts.Node[]} [members] of a class or an interface, with those of bases that are no exports
 * @property {boolean} isMadeByNest its class has a decorator, so that Nest calls its constructor
 */

/** @returns {Map<string, Export>} by name */
export function readExports() {
  const { files, symbols } = readDeclarations();
  const everywhere = files.flatMap(({ statements }) => statements);
  const names = new Set(symbols.map(({ name }) => name));
  const all = new Map();
  for (const { name, path, file, target } of symbols) {
    const known = all.get(name);
    const statements = file.statements.filter((statement) => namesIn(statement).includes(target));
    if (known && known.statements[0] !== statements[0]) throw new Error(`Two exports are named ${name}.`);
    const members = membersOf(statements[0], everywhere, names);
    const isMadeByNest = ts.isClassDeclaration(statements[0]) && isDecorated(file.fileName, target);
    if (known) known.paths.push(path);
    else all.set(name, { name, paths: [path], statements, members, isMadeByNest });
  }
  return all;
}

/** Reads the declarations that the build has made, and the names that the entry points export. */
function readDeclarations() {
  const entries = ENTRY_POINTS.map(({ specifier, module }) => ({
    path: specifier,
    file: path(`${module}.d.ts`),
  }));
  const options = { module: ts.ModuleKind.NodeNext, types: [], noLib: true };
  const host = ts.createCompilerHost(options, true);
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    options,
    host,
  );
  const checker = program.getTypeChecker();
  const symbols = entries.flatMap(({ path, file }) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(file));
    return checker.getExportsOfModule(module).map((symbol) => {
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
      const { name: target, declarations } = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
      return { name: symbol.name, path, file: declarations[0].getSourceFile(), target };
    });
  });
  const files = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(MODULES));
  return { files, symbols };
}

/** Whether a class has a decorator. Its declaration does not tell, so its source is read. */
function isDecorated(file, name) {
  const source = file.replace(MODULES, SOURCES).replace(/\.d\.ts$/, '.ts');
  const { statements } = ts.createSourceFile(source, readFileSync(source, 'utf8'), ts.ScriptTarget.Latest);
  return statements.some((it) => it.name?.text === name && (ts.getDecorators(it) ?? []).length > 0);
}

function namesIn(statement) {
  if (!ts.isVariableStatement(statement)) return [statement.name?.text];
  return statement.declarationList.declarations.map((it) => it.name.getText());
}

function membersOf(statement, everywhere, exported) {
  const hidden = (text) => {
    const [name] = text.match(/\w+/) ?? [];
    const isHidden = !exported.has(name) && ((it) => ts.isInterfaceDeclaration(it) && it.name.text === name);
    return isHidden ? (everywhere.find(isHidden)?.members ?? []) : [];
  };
  if (ts.isTypeAliasDeclaration(statement)) {
    const members = hidden(statement.type.getText());
    return members.length > 0 && ts.isTypeReferenceNode(statement.type) ? members : undefined;
  }
  if (!ts.isInterfaceDeclaration(statement)) return statement.members;
  const bases = (statement.heritageClauses ?? []).flatMap(({ types }) => types.map((it) => it.getText()));
  return [...bases.flatMap(hidden), ...statement.members];
}
