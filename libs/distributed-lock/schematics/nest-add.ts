import type { Rule, SchematicContext, Tree } from '@angular-devkit/schematics';
import { enableShutdownHooks } from './enable-shutdown-hooks.js';
import { loadTypeScript, type TypeScript } from './load-typescript.js';
import { addDependency } from './package-manifest.js';
import { importLines, isRegistered, registerModule, registrationCode } from './register-module.js';
import { rootModuleOf } from './root-module.js';
import { SourceText, type Outcome } from './source-text.js';
import { OFFERED_STORES, type OfferedStore } from '../src/stores.js';

export interface NestAddOptions {
  readonly store?: string;
  readonly sourceRoot?: string;
  readonly skipInstall?: boolean;
}

/**
 * `nest add nestjs-distributed-lock` runs this once the package is installed.
 *
 * The devkit of the Nest CLI runs this, and only its types are used here. So the package depends on no devkit, and works
 * with that of each CLI.
 */
export function nestAdd(options: NestAddOptions): Rule {
  return (tree, context) => new NestAdd(tree, context, options).run();
}

class NestAdd {
  private readonly done: string[] = [];
  private readonly left: string[] = [];
  private readonly store: OfferedStore;
  private readonly sourceRoot: string;
  private readonly ts: TypeScript | undefined = loadTypeScript(process.cwd());

  constructor(
    private readonly tree: Tree,
    private readonly context: SchematicContext,
    private readonly options: NestAddOptions,
  ) {
    const { store = 'memory', sourceRoot = 'src' } = options;
    const found = OFFERED_STORES.find(({ name }) => name === store);
    if (!found) {
      const names = OFFERED_STORES.map(({ name }) => name).join(', ');
      throw new Error(`There is no store "${store}". There are ${names}.`);
    }
    this.store = found;
    // The CLI passes the word "undefined" for a nest-cli.json without a sourceRoot.
    this.sourceRoot = sourceRoot === 'undefined' ? 'src' : sourceRoot.replaceAll(/^\/+|\/+$/g, '');
  }

  run(): void {
    const main = this.entryFile();
    const registeredIn = this.registration();
    if (registeredIn) {
      this.done.push(
        `${registeredIn} registers DistributedLockModule already. It stays as it is, with its store.`,
      );
    } else {
      this.register(main);
      this.addPeers();
      this.left.push(this.store.nestAdd.leftByHand);
    }
    this.enableHooks(main);
    this.report();
  }

  private register(main: string): void {
    const root = this.rootModule(main);
    const outcome = this.change(root.path, (source) => registerModule(source, root.className, this.store));
    if (outcome.kind === 'by-hand') {
      const lines = [...importLines(this.store), `imports: [${registrationCode(this.store)}],`];
      this.left.push(
        `Register the module in the root module by hand, because ${outcome.reason}:\n      ${lines.join('\n      ')}`,
      );
      return;
    }
    const store = this.store.nestAdd.argument ? this.store.factory : 'memory as its store';
    this.done.push(`${root.path}: ${root.className} imports DistributedLockModule with ${store}.`);
  }

  private enableHooks(main: string): void {
    const outcome = this.change(main, enableShutdownHooks);
    if (outcome.kind === 'by-hand') {
      this.left.push(
        `Call app.enableShutdownHooks() before app.listen() by hand, because ${outcome.reason}.`,
      );
    } else {
      const how =
        outcome.kind === 'present' ? 'has enableShutdownHooks() already' : 'calls enableShutdownHooks()';
      this.done.push(`${main} ${how}, so that a deploy releases locks.`);
    }
  }

  private addPeers(): void {
    const peers = Object.entries(this.store.peers ?? {});
    if (peers.length === 0) return;
    if (!this.tree.exists('package.json')) {
      const names = peers.map(([name]) => name).join(' and ');
      this.left.push(`Install ${names} by hand, because there is no package.json.`);
      return;
    }
    const isChanged = peers.map(([name, range]) => this.addPeer(name, range)).includes(true);
    if (isChanged && this.options.skipInstall)
      this.left.push('Install the dependencies, as with npm install.');
    else if (isChanged) this.install();
  }

  private addPeer(name: string, range: string): boolean {
    const outcome = addDependency(this.tree.readText('package.json'), name, range);
    if (outcome.kind === 'present') this.done.push(`package.json has ${name} already.`);
    if (outcome.kind === 'by-hand') this.left.push(`Move ${name} to the dependencies: ${outcome.reason}.`);
    if (outcome.kind !== 'changed') return false;
    this.tree.overwrite('package.json', outcome.text);
    this.done.push(`package.json: ${name} ${range}, which the store uses.`);
    return true;
  }

  /** Writes the task of the devkit by hand, because this package does not import its class. */
  private install(): void {
    const isBun = ['bun.lock', 'bun.lockb'].some((file) => this.tree.exists(file));
    const options = { command: 'install', quiet: true, ...(isBun ? { packageManager: 'bun' } : {}) };
    this.context.addTask({ toConfiguration: () => ({ name: 'node-package', options }) });
  }

  private change(path: string, edit: (source: SourceText) => Outcome): Outcome {
    const source = this.read(path);
    if (typeof source === 'string') return { kind: 'by-hand', reason: source };
    const outcome = edit(source);
    if (outcome.kind === 'changed') this.tree.overwrite(path, outcome.text);
    return outcome.kind === 'by-hand' ? { kind: 'by-hand', reason: `in ${path} ${outcome.reason}` } : outcome;
  }

  private rootModule(main: string): { readonly path: string; readonly className: string } {
    const source = this.read(main);
    const found = typeof source === 'string' ? undefined : rootModuleOf(source, this.tree);
    if (found) return found;
    const extension = this.tree.exists(`${this.sourceRoot}/app.module.js`) ? 'js' : 'ts';
    return { path: `${this.sourceRoot}/app.module.${extension}`, className: 'AppModule' };
  }

  /** The file that registers the module already. */
  private registration(): string | undefined {
    let found: string | undefined;
    this.tree.getDir(this.sourceRoot).visit((path) => {
      if (found || !isSource(path)) return;
      if (!this.text(path)?.includes('DistributedLockModule')) return;
      const source = this.read(path);
      if (typeof source !== 'string' && isRegistered(source)) found = path.slice(1);
    });
    return found;
  }

  private entryFile(): string {
    const name = this.entryFileName();
    const paths = ['ts', 'mts', 'js'].map((extension) => `${this.sourceRoot}/${name}.${extension}`);
    return paths.find((path) => this.tree.exists(path)) ?? `${this.sourceRoot}/main.ts`;
  }

  private entryFileName(): string {
    try {
      const settings = JSON.parse(this.text('nest-cli.json') ?? '{}') as NestSettings;
      const project = Object.values(settings.projects ?? {}).find((it) => it.sourceRoot === this.sourceRoot);
      return project?.entryFile ?? settings.entryFile ?? 'main';
    } catch {
      return 'main';
    }
  }

  /** @returns the file, or why it cannot be read */
  private read(path: string): SourceText | string {
    const text = this.text(path);
    if (text === undefined) return `there is no ${path}`;
    return this.ts
      ? new SourceText(this.ts, path, text)
      : 'no TypeScript 6 or earlier was found that could read it';
  }

  private text(path: string): string | undefined {
    return this.tree.exists(path) ? this.tree.readText(path) : undefined;
  }

  private report(): void {
    const { logger } = this.context;
    const list = (lines: readonly string[]) => lines.map((line) => `\n  - ${line}`).join('');
    if (this.done.length > 0) logger.info(`Done:${list(this.done)}`);
    if (this.left.length > 0) logger.warn(`Left for you:${list(this.left)}`);
    logger.info(
      "Then put @Locked('order:<id>') on a method with a parameter id: one call at a time runs for each id. " +
        'The README of nestjs-distributed-lock shows more.',
    );
  }
}

/** Whether the application may run the file: it is no declaration, no test, and in no folder of tests. */
function isSource(path: string): boolean {
  if (!/\.[cm]?[jt]sx?$/.test(path) || /\.d\.[cm]?ts$/.test(path)) return false;
  return !/[.-](spec|test|e2e|mock)\.[^/.]+$/i.test(path) && !/\/(tests?|specs?|e2e|__\w+__)\//i.test(path);
}

interface NestSettings {
  readonly entryFile?: string;
  readonly projects?: Readonly<Record<string, { readonly sourceRoot?: string; readonly entryFile?: string }>>;
}
