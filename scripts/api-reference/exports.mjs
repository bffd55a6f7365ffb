// Every export of every entry point of the package, as the compiler declares it.
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { ENTRY_POINTS } from '../entry-points.mjs';

const path = (relative) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));

/**
 * @typedef {object} Export
 * @property {string} name
 * @property {string[]} paths what one imports it from
 * @property {ts.Statement[]} statements its emitted declarations, several for an overloaded function
 * @property {readonly ts.Node[]} [members] of a class or an interface, with those of bases that are no exports
 * @property {boolean} isMadeByNest its class has a decorator, so that Nest calls its constructor
 */

/** @returns {Map<string, Export>} by name */
export function readExports() {
  const { texts, symbols } = compile();
  const files = new Map(
    Object.entries(texts).map(([file, text]) => [
      file,
      ts.createSourceFile('it.d.ts', text, ts.ScriptTarget.Latest, true).statements,
    ]),
  );
  const everywhere = [...files.values()].flat();
  const names = new Set(symbols.map(({ name }) => name));
  const all = new Map();
  for (const { name, path, file, target, isMadeByNest } of symbols) {
    const known = all.get(name);
    const statements = files.get(file).filter((statement) => namesIn(statement).includes(target));
    if (known && known.statements[0] !== statements[0]) throw new Error(`Two exports are named ${name}.`);
    const members = membersOf(statements[0], everywhere, names);
    if (known) known.paths.push(path);
    else all.set(name, { name, paths: [path], statements, members, isMadeByNest });
  }
  return all;
}

/** What the compiler emits, and which names the entry points export. */
function compile() {
  const entries = ENTRY_POINTS.map(({ specifier, source }) => ({ path: specifier, file: path(source) }));
  const program = ts.createProgram(
    entries.map(({ file }) => file),
    { ...compilerOptions(), noEmit: false, declaration: true, emitDeclarationOnly: true, sourceMap: false },
  );
  const texts = {};
  const write = (_file, text, _mark, _onError, [source] = []) => source && (texts[source.fileName] = text);
  program.emit(undefined, write, undefined, true);
  const checker = program.getTypeChecker();
  const symbols = entries.flatMap(({ path, file }) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(file));
    return checker.getExportsOfModule(module).map((symbol) => {
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
      const { name: target, declarations } = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
      const [node] = declarations;
      const isMadeByNest = ts.isClassDeclaration(node) && (ts.getDecorators(node) ?? []).length > 0;
      return { name: symbol.name, path, file: node.getSourceFile().fileName, target, isMadeByNest };
    });
  });
  return { texts, symbols };
}

function compilerOptions() {
  const { config } = ts.readConfigFile(path('tsconfig.json'), (file) => ts.sys.readFile(file));
  return ts.parseJsonConfigFileContent(config, ts.sys, path('.')).options;
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
