import { readFileSync, readdirSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const SRC = fileURLToPath(new URL('../../../libs/distributed-lock/src', import.meta.url));

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'));

/** What a file imports: paths from `src` without their ending, or the names of packages. */
function importsOf(file: string, text = readFileSync(join(SRC, file), 'utf8')): string[] {
  const specifiers = [
    ...withoutComments(text).matchAll(/(?:\bfrom\s+|\bimport\s*\(?\s*|\brequire\s*\(\s*)'([^']+)'/g),
  ];
  return specifiers.map(([, name = '']) =>
    name.startsWith('.') ? posix.join(posix.dirname(file), name).replace(/\.js$/, '') : name,
  );
}

/** What a file needs to be loaded: all that it imports but types. */
function valuesOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  return importsOf(file, text.replace(/^(?:import|export) type [^;]*;$/gm, ''));
}

/** What belongs to no room of ours: the rooms below use nothing else of the outside. */
const TOOLS = 'rxjs(/operators)?|node:.*';
/** A room that knows nothing of locks, and the port, which the core and the stores share. */
const SHARED = '(common|port)/.*';

const TOKENS = 'distributed-lock.tokens';

/** What the two clients of Redis may use of the room that they are in. */
const REDIS_CLIENT = 'redis/(client|errors|keys)';

/** Room by room, the first match decides: all that its files may import beside those of the room itself. */
const ROOMS: readonly (readonly [room: string, mayImport: string])[] = [
  ['common/', TOOLS],
  ['port/', `common/.*|${TOOLS}`],
  ['lock/request/', `lock/lock|${SHARED}|${TOOLS}`],
  ['lock/events/', `${SHARED}|${TOOLS}`],
  ['lock/core/', `lock/lock|lock/(request|events)/.*|${SHARED}|${TOOLS}`],
  ['lock/streams/', `lock/core/.*|${SHARED}|${TOOLS}`],
  ['lock/', `lock/.*|${SHARED}|${TOOLS}`],
  // The list of stores is data.
  ['stores', '(?!)'],
  ['connection/', `${SHARED}|${TOOLS}`],
  ['document/', `connection/.*|${SHARED}|${TOOLS}`],
  ['memory/', `document/.*|${SHARED}|${TOOLS}`],
  ['sql/', `(connection|document)/.*|${SHARED}|${TOOLS}`],
  ['postgres/', `(connection|document|sql)/.*|${SHARED}|${TOOLS}|pg|@electric-sql/pglite`],
  ['mysql/', `(connection|document|sql)/.*|${SHARED}|${TOOLS}|mysql2(/promise)?`],
  ['sqlite/', `(connection|document|sql)/.*|${SHARED}|${TOOLS}`],
  ['session/', `(connection|document)/.*|${SHARED}|${TOOLS}`],
  ['etcd/', `(connection|document|session)/.*|${SHARED}|${TOOLS}|@grpc/(grpc-js|proto-loader)`],
  ['zookeeper/client/', `connection/.*|${SHARED}|${TOOLS}`],
  ['zookeeper/', `(connection|document|session|zookeeper)/.*|${SHARED}|${TOOLS}`],
  // The public type of what `redisStore` is given.
  ['redis/options', `connection/.*|redis/node-redis/target|${SHARED}|ioredis`],
  ['redis/ioredis/', `connection/.*|${REDIS_CLIENT}|${SHARED}|${TOOLS}|ioredis`],
  ['redis/node-redis/', `connection/.*|${REDIS_CLIENT}|${SHARED}|${TOOLS}`],
  ['redis/', `connection/.*|redis/.*|${SHARED}|${TOOLS}`],
  ['quorum/', `${SHARED}|${TOOLS}`],
  [
    'testing/',
    `testing/.*|${TOKENS}|lock/(lock.service|(request|events)/.*)|memory/store|${SHARED}|${TOOLS}`,
  ],
  ['fencing/', 'lock/lock|document/(json|document)|sql/.*|(common|port)/.*|@nestjs/(common|core)'],
  ['observe/otel/', `lock/.*|${TOKENS}|(common|port)/.*|@nestjs/.*|@opentelemetry/api`],
  ['observe/health/', `lock/.*|${TOKENS}|common/.*|@nestjs/.*`],
  ['observe/', 'lock/.*|(common|port)/.*|@nestjs/common'],
  [
    'once/',
    `lock/.*|locked/client-errors|keys/.*|nest/.*|fencing/(fenced-redis|held-until-commit)|sql/lock-table|${TOKENS}|${SHARED}|${TOOLS}|@nestjs/(common|core)`,
  ],
  ['bullmq/', `lock/.*|keys/.*|nest/.*|${TOKENS}|${SHARED}|${TOOLS}`],
  ['leader/', `lock/.*|nest/.*|${TOKENS}|${SHARED}|${TOOLS}|@nestjs/(common|core)`],
  ['admin/cli/', `admin/lock-view|lock/(lock|lock.service)|stores|${SHARED}|${TOOLS}`],
  ['admin/', `lock/.*|${TOKENS}|${SHARED}|${TOOLS}|@nestjs/(common|core)`],
  ['nest/', `${SHARED}|${TOOLS}|@nestjs/(common|core)`],
  // How a decorated method makes its keys: it knows what a key is, and no lock.
  ['keys/', `nest/.*|lock/request/key-claim|${SHARED}|${TOOLS}|@nestjs/common`],
  ['locked/', `${TOKENS}|keys/.*|nest/.*|lock/.*|${SHARED}|${TOOLS}|@nestjs/.*`],
  ['', '.*/.*|distributed-lock\\..*|rxjs|node:.*|reflect-metadata'],
];

/** What a machine gives by itself: a history in which it is used cannot be run again. */
const UNREPEATABLE =
  /Math\.random|random(UUID|Bytes|Int)\(|Date\.now\(|new Date\(\)|performance\.|hrtime|set(Immediate|Timeout|Interval)\(/;

/** They may ask the machine: the sources themselves, what tests with real time, and sockets and streams of the platform. */
const MAY_ASK_THE_MACHINE =
  /^common\/clock|^testing\/|^lock\/streams\/held-stream|^postgres\/target|^sqlite\/link|^fencing\/fencing-headers/;

type Imports = ReadonlyMap<string, readonly string[]>;

/** Files or rooms that import each other: from the first one back to it. */
function circlesOf(imports: Imports): string[] {
  const circles: string[] = [];
  const done = new Set<string>();
  const follow = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) return void circles.push([...path.slice(path.indexOf(file)), file].join(' → '));
    if (done.has(file)) return;
    for (const name of imports.get(file) ?? []) follow(name, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) follow(file, []);
  return circles;
}

/**
 * Files that count as rooms of their own: those of `src` itself, the door of `lock/`, and what the rooms of the Redis store
 * share.
 */
const DOORS = /^(?:[^/]+|lock\/lock|redis\/[^/]+)$/;

function roomOf(file: string): string {
  return DOORS.test(file) ? file : posix.dirname(file);
}

/** What each room imports of the other rooms. */
function roomsOf(imports: Imports): Imports {
  const rooms = new Map<string, readonly string[]>();
  for (const [file, names] of imports) {
    const room = roomOf(file);
    const others = names.filter((name) => imports.has(name)).map(roomOf);
    rooms.set(room, [...(rooms.get(room) ?? []), ...others.filter((it) => it !== room)]);
  }
  return rooms;
}

function violationsOf(file: string, imports: readonly string[]): string[] {
  const [room, mayImport] = ROOMS.find(([folder]) => file.startsWith(folder))!;
  const allowed = new RegExp(`^(${mayImport}${room && `|${room}[^/]+`})$`);
  return imports.filter((name) => !allowed.test(name)).map((name) => `${file} imports ${name}`);
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[^]*?\*\/|\/\/.*$/gm, '');
}

describe('the layers of the library', () => {
  it('point one way: every file may import what its folder says, clients stay where they are used', () => {
    expect(files.flatMap((file) => violationsOf(file, importsOf(file)))).toEqual([]);
  });

  it('have no circles of files, but of types within one room: each file loads after all that it imports', () => {
    const imports = new Map(files.map((file) => [file.replace(/\.ts$/, ''), valuesOf(file)]));
    expect(circlesOf(imports)).toEqual([]);
    expect(imports.size).toBeGreaterThan(100);
  });

  it('have no circles of rooms: whoever reads a folder can read all that it imports before it', () => {
    const rooms = roomsOf(new Map(files.map((file) => [file.replace(/\.ts$/, ''), importsOf(file)])));
    expect(circlesOf(rooms)).toEqual([]);
    expect(rooms.size).toBeGreaterThan(20);
  });

  it('take chance, ids, moments and turns from the context, so that a simulation can run a history again', () => {
    const asking = files.filter((file) =>
      UNREPEATABLE.test(withoutComments(readFileSync(join(SRC, file), 'utf8'))),
    );
    expect(asking.filter((file) => !MAY_ASK_THE_MACHINE.test(file))).toEqual([]);
    expect(asking).toContain('common/clock.ts');
  });

  it('load Nest, rxjs and the platform from the main entry point, and no driver', () => {
    const reached = new Set<string>();
    const follow = (file: string): void => {
      if (reached.has(file)) return;
      reached.add(file);
      // What is imported in the course of a call, as a transport's package, is not loaded from here.
      const text = files.includes(`${file}.ts`) ? readFileSync(join(SRC, `${file}.ts`), 'utf8') : '';
      importsOf(file, text.replace(/\bimport\('[^']+'\)/g, '')).forEach(follow);
    };
    follow('index');
    const packages = [...reached].filter(
      (name) => !files.includes(`${name}.ts`) && !name.startsWith('node:'),
    );
    expect(
      packages.filter((name) => !/^(@nestjs\/(common|core)(\/.*)?|rxjs(\/.*)?|reflect-metadata)$/.test(name)),
    ).toEqual([]);
    expect(packages).toContain('@nestjs/common');
  });

  it('would be seen to be broken', () => {
    const text = "import { a } from '../redis/keys.js';\nconst b = await import('ioredis');";
    expect(violationsOf('lock/bad.ts', importsOf('lock/bad.ts', text))).toEqual([
      'lock/bad.ts imports redis/keys',
      'lock/bad.ts imports ioredis',
    ]);
    const circle = new Map([
      ['a', ['b']],
      ['b', ['c', 'd']],
      ['c', ['a']],
      ['d', []],
    ]);
    expect(circlesOf(circle)).toEqual(['a → b → c → a']);
    const rooms = new Map([
      ['lock/core/x', ['lock/events/y', 'lock/lock']],
      ['lock/events/y', []],
      ['lock/events/z', ['lock/core/x']],
      ['lock/lock', []],
    ]);
    expect(circlesOf(roomsOf(rooms))).toEqual(['lock/core → lock/events → lock/core']);
    expect(violationsOf('nest/bad.ts', ['keys/key-plan'])).toHaveLength(1);
    expect(violationsOf('keys/bad.ts', ['lock/lock', 'locked/lock-plan'])).toHaveLength(2);
    expect(violationsOf('lock/core/bad.ts', ['lock/lock.service'])).toHaveLength(1);
    expect(violationsOf('redis/bad.ts', ['lock/lock.service'])).toHaveLength(1);
    expect(violationsOf('locked/bad.ts', ['memory/store'])).toHaveLength(1);
    expect(
      violationsOf('fencing/bad.ts', ['lock/lock.service', 'redis/index', 'ioredis', 'pg']),
    ).toHaveLength(4);
    expect(violationsOf('observe/bad.ts', ['observe/otel/index', '@opentelemetry/api'])).toHaveLength(2);
  });
});
