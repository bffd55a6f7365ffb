import { posix } from 'node:path';
import { applicationsOf } from './enable-shutdown-hooks.js';
import type { SourceText } from './source-text.js';

/** The files of the application, as far as this command needs them. */
export interface Files {
  exists(path: string): boolean;
}

export interface RootModule {
  readonly path: string;
  readonly className: string;
}

/** The module that the entry file boots: its class, and the file that declares it. */
export function rootModuleOf(main: SourceText, files: Files): RootModule | undefined {
  const { ts } = main;
  for (const call of applicationsOf(main)) {
    let [module] = call.arguments;
    // `AppModule.forRoot(…)`: the class before the dot.
    while (module && (ts.isCallExpression(module) || ts.isPropertyAccessExpression(module))) {
      module = module.expression;
    }
    if (module && ts.isIdentifier(module)) return declarationOf(main, module.text, files);
  }
  return undefined;
}

function declarationOf(main: SourceText, name: string, files: Files): RootModule | undefined {
  const { ts, file } = main;
  for (const statement of file.statements) {
    if (ts.isClassDeclaration(statement) && statement.name?.text === name) {
      return { path: main.path, className: name };
    }
    if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
    const names = statement.importClause?.namedBindings;
    if (!names || !ts.isNamedImports(names)) continue;
    const found = names.elements.find((it) => it.name.text === name);
    const path = found && resolve(main.path, statement.moduleSpecifier.text, files);
    if (found && path) return { path, className: (found.propertyName ?? found.name).text };
  }
  return undefined;
}

/** A path as `src/app.module` begins at the root of the project, as with `baseUrl`. */
function resolve(from: string, specifier: string, files: Files): string | undefined {
  const base = specifier.startsWith('.') ? posix.join(posix.dirname(from), specifier) : `/${specifier}`;
  const stem = base.replace(/\.[cm]?js$/, '');
  const candidates = [`${stem}.ts`, `${stem}.mts`, `${stem}.js`, base, `${base}.ts`];
  return candidates.find((path) => /\.[cm]?[jt]s$/.test(path) && files.exists(path));
}
