import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const path = (relative: string) => fileURLToPath(new URL(`../../../${relative}`, import.meta.url));
const source = (entry: string) => path(`libs/distributed-lock/src/${entry}`);

const ENTRY_POINTS = [
  'index.ts',
  'stores/redis/index.ts',
  'stores/sql/postgres/index.ts',
  'stores/sql/mysql/index.ts',
  'stores/sql/sqlite/index.ts',
  'stores/etcd/index.ts',
  'stores/zookeeper/index.ts',
  'stores/quorum/index.ts',
  'observe/otel/index.ts',
  'observe/health/index.ts',
  'leader/index.ts',
  'admin/index.ts',
  'fencing/index.ts',
  'testing/index.ts',
];

const program = ts.createProgram(ENTRY_POINTS.map(source), readOptions());
const checker = program.getTypeChecker();

function readOptions(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(path('tsconfig.json'), (file) => ts.sys.readFile(file)) as {
    config: object;
  };
  return ts.parseJsonConfigFileContent(config, ts.sys, path('.')).options;
}

/** All names that an entry point exports; those that are types only in angle brackets. */
function exportsOf(entry: string): string[] {
  const module = checker.getSymbolAtLocation(program.getSourceFile(source(entry))!)!;
  return checker
    .getExportsOfModule(module)
    .map((symbol) => (isValue(symbol) ? symbol.name : `<${symbol.name}>`))
    .sort();
}

function isValue(symbol: ts.Symbol): boolean {
  const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
  const target = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
  return (target.flags & ts.SymbolFlags.Value) !== 0;
}

describe('the public API', () => {
  it('is listed here for each path that the package exports', () => {
    const { name, exports } = JSON.parse(
      readFileSync(path('libs/distributed-lock/package.json'), 'utf8'),
    ) as { name: string; exports: object };
    const paths = Object.keys(exports).filter((it) => it !== './package.json');
    const sources = paths.map((it) => readOptions().paths?.[name + it.slice(1)]?.[0] ?? it);
    expect(ENTRY_POINTS.map((entry) => `./libs/distributed-lock/src/${entry}`).toSorted()).toEqual(
      sources.toSorted(),
    );
  });
  it('of the main entry point is this list', () => {
    expect(exportsOf('index.ts')).toMatchInlineSnapshot(`
     [
       "<AcquireReply>",
       "<AcquireRequest>",
       "<Busy>",
       "<BusyFallback>",
       "<CallOptions>",
       "<Chance>",
       "<Clock>",
       "<Grant>",
       "<HoldSnapshot>",
       "<InTheWay>",
       "<Introduction>",
       "<KeyPage>",
       "<KeyValue>",
       "<Keys>",
       "<ListOptions>",
       "<ListRequest>",
       "<Lock>",
       "<LockClient>",
       "<LockErrorCode>",
       "<LockEvent>",
       "<LockHolder>",
       "<LockHttpOptions>",
       "<LockInspection>",
       "<LockLogLevel>",
       "<LockLoggerOption>",
       "<LockModuleOptions>",
       "<LockOptionsFactory>",
       "<LockPage>",
       "<LockPredicate>",
       "<LockRegistration>",
       "<LockServiceOptions>",
       "<LockSnapshot>",
       "<LockStore>",
       "<LockStoreContext>",
       "<LockStoreFactory>",
       "<LockedOptions>",
       "<Notification>",
       "<Queued>",
       "<ReleaseReply>",
       "<ReleaseRequest>",
       "<Renewal>",
       "<RenewalReply>",
       "<Repeated>",
       "<StoreState>",
       "<WithLockOptions>",
       "<Work>",
       "CurrentLock",
       "DistributedLockModule",
       "InjectLockService",
       "LockConfigurationError",
       "LockDeadlockError",
       "LockDefaults",
       "LockError",
       "LockErrorFilter",
       "LockKeyError",
       "LockLostError",
       "LockNotHeldError",
       "LockService",
       "LockShutdownError",
       "LockSignal",
       "LockStoreError",
       "LockWaitTimeoutError",
       "Locked",
       "LockedInterceptor",
       "getLockServiceToken",
       "isLockError",
       "lockKey",
       "memoryStore",
       "systemClock",
       "toHttpException",
     ]
    `);
  });
  it('of /redis is this list', () => {
    expect(exportsOf('stores/redis/index.ts')).toMatchInlineSnapshot(`
     [
       "<NodeRedisClient>",
       "<RedisStoreOptions>",
       "<RedisTarget>",
       "redisStore",
     ]
    `);
  });
  it('of /postgres is this list', () => {
    expect(exportsOf('stores/sql/postgres/index.ts')).toMatchInlineSnapshot(`
     [
       "<Listen>",
       "<PGliteDatabase>",
       "<PostgresConfig>",
       "<PostgresHandle>",
       "<PostgresPool>",
       "<PostgresStoreOptions>",
       "<PostgresTarget>",
       "lockTableSql",
       "postgresStore",
     ]
    `);
  });
  it('of /mysql is this list', () => {
    expect(exportsOf('stores/sql/mysql/index.ts')).toMatchInlineSnapshot(`
     [
       "<MysqlStoreOptions>",
       "<MysqlTarget>",
       "lockTableSql",
       "mysqlStore",
     ]
    `);
  });
  it('of /sqlite is this list', () => {
    expect(exportsOf('stores/sql/sqlite/index.ts')).toMatchInlineSnapshot(`
     [
       "<SqliteStoreOptions>",
       "sqliteStore",
     ]
    `);
  });
  it('of /etcd is this list', () => {
    expect(exportsOf('stores/etcd/index.ts')).toMatchInlineSnapshot(`
     [
       "<EtcdAuth>",
       "<EtcdStoreOptions>",
       "<EtcdTls>",
       "etcdStore",
     ]
    `);
  });
  it('of /zookeeper is this list', () => {
    expect(exportsOf('stores/zookeeper/index.ts')).toMatchInlineSnapshot(`
     [
       "<ZookeeperStoreOptions>",
       "<ZookeeperTarget>",
       "zookeeperStore",
     ]
    `);
  });
  it('of /quorum is this list', () => {
    expect(exportsOf('stores/quorum/index.ts')).toMatchInlineSnapshot(`
     [
       "<QuorumNodeState>",
       "<QuorumStoreOptions>",
       "quorumStore",
     ]
    `);
  });
  it('of /otel is this list', () => {
    expect(exportsOf('observe/otel/index.ts')).toMatchInlineSnapshot(`
     [
       "<LockMetricsModuleOptions>",
       "<LockMetricsOptions>",
       "<LockTracingModuleOptions>",
       "<LockTracingOptions>",
       "LockMetricsModule",
       "LockTracingModule",
       "measureLocks",
       "traceLocks",
     ]
    `);
  });
  it('of /health is this list', () => {
    expect(exportsOf('observe/health/index.ts')).toMatchInlineSnapshot(`
     [
       "LockHealthIndicator",
     ]
    `);
  });
  it('of /leader is this list', () => {
    expect(exportsOf('leader/index.ts')).toMatchInlineSnapshot(`
     [
       "<Leader>",
       "<LeaderOptions>",
       "<Term>",
       "CurrentTerm",
       "InjectLeader",
       "LeaderModule",
       "OnDemoted",
       "OnElected",
       "OnlyLeader",
       "getLeaderToken",
     ]
    `);
  });
  it('of /admin is this list', () => {
    expect(exportsOf('admin/index.ts')).toMatchInlineSnapshot(`
     [
       "<LockAdminOptions>",
       "LockAdminModule",
     ]
    `);
  });
  it('of /guard is this list', () => {
    expect(exportsOf('fencing/index.ts')).toMatchInlineSnapshot(`
     [
       "<Fence>",
       "<FencedKeys>",
       "<FencedRedisOptions>",
       "<FencedRequest>",
       "<HeldUntilCommitOptions>",
       "<RedisWord>",
       "<ScriptingClient>",
       "<SqlAnswer>",
       "<SqlDialect>",
       "<SqlQuery>",
       "<SqlRow>",
       "CommitRefusedError",
       "CurrentFence",
       "FenceMemory",
       "Fenced",
       "FencedGuard",
       "FencedRedis",
       "ProcessFences",
       "StaleTokenError",
       "fencedRedis",
       "fencingHeaders",
       "heldUntilCommit",
     ]
    `);
  });
  it('of /testing is this list', () => {
    expect(exportsOf('testing/index.ts')).toMatchInlineSnapshot(`
     [
       "<ContractCaseName>",
       "<ContractDeviations>",
       "<Fate>",
       "<Faults>",
       "<StoreCommand>",
       "<StoreUnderTest>",
       "<TestLocksOptions>",
       "FaultyStore",
       "ManualClock",
       "TestLocks",
       "describeLockStoreContract",
     ]
    `);
  });
});
