import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { MODULE_RULES } from '../../libs/distributed-lock/src/distributed-lock.module.js';
import { CALL_RULES } from '../../libs/distributed-lock/src/lock/request/lock-options.js';
import { LOCKED_RULES } from '../../libs/distributed-lock/src/locked/locked.options.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
/** Need not exist: the language service is given its text. */
const FILE = `${ROOT}/test/repo/shown-in-an-editor.ts`;

const LOCKED = `{
  waitMs: 0, maxWaiting: 5, leaseMs: 20, mode: 'shared', fair: true, reentrant: false, holdAtLeastMs: 10, signal: AbortSignal.abort(), onQueued: () => undefined, onLost: 'ignore',
  permits: 3, weight: 2, name: 'other', onBusy: 'skip', when: (id: string) => id !== '', stream: false, site: 'here', graceMs: 50,
  http: { busy: 409, storeDown: 503, lost: 503, badKey: 400, position: true },
}`;
const MODULE = `
  store: memoryStore(), keyPrefix: 'a:', waitMs: 1, watchdogTimeoutMs: 900, shutdownGraceMs: 1, clock: systemClock,
  chance: { random: () => 0, uuid: () => '', hex: () => '' },
  logger: 'warn', application: 'shop', http: { busy: 409, storeDown: 503, lost: 503, badKey: 400, position: true },
  defaults: { waitMs: 1, maxWaiting: 5, leaseMs: 20, mode: 'shared', fair: true, reentrant: false, holdAtLeastMs: 10, signal: AbortSignal.abort(), onQueued: () => undefined, permits: 3, weight: 2, site: 'here', onBusy: 'takeover', graceMs: 50 },
`;
const HTTP_NAMES = ['busy', 'storeDown', 'lost', 'badKey', 'position'];

/** A file as a user writes it, with the options that must be shown in it. */
const PLACES: Readonly<Record<string, readonly [code: string, names: readonly string[]]>> = {
  '@Locked with a template': [
    `class Some { @Locked('a:<0>', ${LOCKED}) async some(_id: string): Promise<void> {} }`,
    [...Object.keys(LOCKED_RULES), ...HTTP_NAMES],
  ],
  '@Locked with a function': [
    `class Some { @Locked((id: string) => id, ${LOCKED}) async some(_id: string): Promise<void> {} }`,
    [...Object.keys(LOCKED_RULES), ...HTTP_NAMES],
  ],
  '@LockDefaults': [`@LockDefaults(${LOCKED}) class Some {}`, [...Object.keys(LOCKED_RULES), ...HTTP_NAMES]],
  withLock: [`void locks.withLock('a', { waitMs: 1, onLost: 'ignore' }, () => 1);`, ['waitMs', 'onLost']],
  forRoot: [
    `DistributedLockModule.forRoot({ ${MODULE} name: 'a', isGlobal: true });`,
    [
      ...Object.keys({ ...MODULE_RULES.options, ...MODULE_RULES.registration, ...CALL_RULES.acquire }),
      ...HTTP_NAMES,
    ],
  ],
  'forRootAsync with a factory': [
    `DistributedLockModule.forRootAsync({
       name: 'a', isGlobal: true, imports: [], inject: [], provideInjectionTokensFrom: [], useFactory: () => ({ ${MODULE} }),
     });`,
    [
      ...Object.keys(MODULE_RULES.async).filter((name) => !/^use(Class|Existing)$/.test(name)),
      ...Object.keys({ ...MODULE_RULES.options, ...CALL_RULES.acquire }),
      ...HTTP_NAMES,
    ],
  ],
  'forRootAsync with a class': [
    `class Options { createLockOptions() { return {}; } }
     DistributedLockModule.forRootAsync({ useClass: Options });
     DistributedLockModule.forRootAsync({ useExisting: Options });`,
    ['useClass', 'useExisting'],
  ],
};

/** What a user writes wrongly, and the whole answer of the compiler to it. */
const MISTAKES: readonly (readonly [code: string, answer: string])[] = [
  [`class Some { @Locked('a', { waitMS: 1 }) async some() {} }`, unknown('waitMS', 'waitMs')],
  [`class Some { @Locked('a', { leaseMs: 20, waitMS: 1 }) async some() {} }`, unknown('waitMS', 'waitMs')],
  [
    `class Some { @Locked((id: string) => id, { waitMS: 1 }) async some(_id: string) {} }`,
    unknown('waitMS', 'waitMs'),
  ],
  [
    `class Some { @Locked('a', { onBusy: () => undefined, waitMS: 1 }) async some() {} }`,
    unknown('waitMS', 'waitMs'),
  ],
  [`class Some { @Locked('a', { http: { bsy: 409 } }) async some() {} }`, unknown('bsy', 'busy')],
  [
    `class Some { @Locked('a', { waitMs: '1' }) async some() {} }`,
    `Type 'string' is not assignable to type 'number'.`,
  ],
  [`class Some { @Locked('a', { onBusy: 'skp' }) async some() {} }`, `Did you mean '"skip"'?`],
  [
    `class Some { @Locked(42) async some() {} }`,
    `Argument of type 'number' is not assignable to parameter of type 'LockedKey'.`,
  ],
  [`@LockDefaults({ waitMS: 1 }) class Some {}`, unknown('waitMS', 'waitMs')],
  [`void locks.withLock('a', { waitMS: 1 }, () => 1);`, unknown('waitMS', 'waitMs')],
  [
    `void locks.withLock('a', { waitMs: '1' }, () => 1);`,
    `Type 'string' is not assignable to type 'number'.`,
  ],
  [`void locks.withLock('a');`, 'Expected 2-3 arguments, but got 1.'],
  [
    `void locks.withLock(42, () => 1);`,
    `Argument of type 'number' is not assignable to parameter of type 'Keys'.`,
  ],
  [`void locks.acquire('a', { waitMS: 1 });`, unknown('waitMS', 'waitMs')],
  [`void locks.tryAcquire('a', { waitMs: '1' });`, `Type 'string' is not assignable to type 'number'.`],
  [`DistributedLockModule.forRoot({ keyPrefx: 'a:' });`, unknown('keyPrefx', 'keyPrefix')],
  [
    `DistributedLockModule.forRoot({ store: 'redis' });`,
    `Type 'string' is not assignable to type 'LockStoreFactory'.`,
  ],
  [
    `DistributedLockModule.forRoot({ store: memoryStore });`,
    `Type '() => LockStoreFactory' is not assignable to type 'LockStoreFactory'.`,
  ],
  [`DistributedLockModule.forRoot({ defaults: { waitMS: 1 } });`, unknown('waitMS', 'waitMs')],
  [`DistributedLockModule.forRootAsync({ useFactry: () => ({}) });`, unknown('useFactry', 'useFactory')],
];

function unknown(name: string, nearest: string): string {
  return `'${name}' does not exist in its type. Did you mean to write '${nearest}'?`;
}

const HEAD = `import { Locked, LockDefaults, DistributedLockModule, LockService, memoryStore, systemClock } from 'nestjs-distributed-lock';
declare const locks: LockService;
`;
const blocks = Object.entries(PLACES).map(([place, [code]]) => `{ // ${place}\n${code}\n}\n`);
const MEMBERS = 'void locks.';
/** One file with all places, because each file costs the compiler seconds. */
const correct = `${HEAD}${blocks.join('')}`;
const wrong = MISTAKES.map(([code]) => `{\n${code}\n}\n`);
const text = `${correct}${wrong.join('')}${MEMBERS}\n`;

function languageService(): ts.LanguageService {
  const { config } = ts.readConfigFile(`${ROOT}/tsconfig.json`, (file) => ts.sys.readFile(file)) as {
    config: object;
  };
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [FILE] }, ts.sys, ROOT);
  return ts.createLanguageService({
    getScriptFileNames: () => [FILE],
    getScriptVersion: () => '1',
    getScriptSnapshot: (file) => {
      const content = file === FILE ? text : ts.sys.readFile(file);
      return content === undefined ? undefined : ts.ScriptSnapshot.fromString(content);
    },
    getCurrentDirectory: () => ROOT,
    // The examples declare names only.
    getCompilationSettings: () => ({ ...options, noUnusedLocals: false }),
    getDefaultLibFileName: (it) => ts.getDefaultLibFilePath(it),
    fileExists: (file) => file === FILE || ts.sys.fileExists(file),
    readFile: (file) => ts.sys.readFile(file),
    readDirectory: (...args) => ts.sys.readDirectory(...args),
    directoryExists: (folder) => ts.sys.directoryExists(folder),
    getDirectories: (folder) => ts.sys.getDirectories(folder),
  });
}

describe('an editor', () => {
  const service = languageService();

  /** What it shows for a name, at each of its uses in one place. */
  function shownFor(name: RegExp, place: string): readonly string[] {
    const block = blocks[Object.keys(PLACES).indexOf(place)]!;
    const start = text.indexOf(block);
    return [...block.matchAll(name)].map(({ index }) =>
      ts.displayPartsToString(service.getQuickInfoAtPosition(FILE, start + index)?.documentation),
    );
  }

  /** The messages about a part of the file. */
  function saidOf(part: string): readonly string[] {
    const start = text.indexOf(part);
    return service
      .getSemanticDiagnostics(FILE)
      .filter((it) => it.start! >= start && it.start! < start + part.length)
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
  }

  it('has nothing to complain of in the examples', () => {
    expect(saidOf(correct)).toEqual([]);
  }, 60_000);

  it.each(MISTAKES)('answers a mistake with one line that says what is wrong: %s', (code, answer) => {
    const said = saidOf(wrong[MISTAKES.findIndex((it) => it[0] === code)]!);
    expect(said.map((line) => line.replace(/in type '[^']*'/, 'in its type'))).toEqual([
      expect.stringContaining(answer),
    ]);
    expect(said[0]).not.toContain('\n');
  });

  it('offers of a LockService what applications use, and nothing else', () => {
    const at = text.indexOf(MEMBERS) + MEMBERS.length;
    const names = service.getCompletionsAtPosition(FILE, at, undefined)?.entries.map(({ name }) => name);
    expect(names?.toSorted()).toEqual(
      [
        [
          'acquire',
          'assertHeld',
          'attach',
          'client',
          'close',
          'current',
          'drain',
          'events$',
          'forceRelease',
          'held',
        ],
        ['inspect', 'isHeld', 'list', 'name', 'open', 'options', 'tryAcquire', 'withLock'],
      ].flat(),
    );
  });

  it.each(Object.keys(PLACES))('shows what each option means where it is written: %s', (place) => {
    const [, names] = PLACES[place]!;
    const untold = names.filter((name) => {
      const shown = shownFor(new RegExp(`(?<=[{,]\\s*)${name}(?=:)`, 'g'), place);
      return shown.length === 0 || shown.includes('');
    });
    expect(untold).toEqual([]);
  });
});
