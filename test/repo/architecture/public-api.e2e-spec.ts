import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const path = (relative: string) => fileURLToPath(new URL(`../../../${relative}`, import.meta.url));
const source = (entry: string) => path(`libs/distributed-lock/src/${entry}`);

/** What each path exports, those that are types only in angle brackets. A list that changes is a change for users. */
const EXPORTS: Readonly<Record<string, string>> = {
  'index.ts': `
    <AcquireReply> <AcquireRequest> <Busy> <BusyFallback> <CallOptions> <Chance> <Clock> <Force> <ForceReleaseOptions> <ForceReply> <Grant>
    <HoldSnapshot> <Introduction> <KeyPage> <KeyValue> <Keys> <ListOptions> <ListRequest> <Lock>
    <LockClient> <LockErrorCode> <LockEvent> <LockHolder> <LockHttpOptions> <LockInspection> <LockLogLevel>
    <LockLoggerOption> <LockModuleOptions> <LockOptionsFactory> <LockPage> <LockPredicate>
    <LockRegistration> <LockServiceOptions> <LockSnapshot> <LockStore> <LockStoreContext> <LockStoreFactory>
    <LockedOptions> <Notification> <Queued> <ReleaseReply> <ReleaseRequest> <Renewal> <RenewalReply>
    <Repeated> <StoreState> <UnreadableKey> <WithLockOptions> <Work> CurrentLock DistributedLockModule InjectLockService
    LockConfigurationError LockDeadlockError LockDefaults LockError LockErrorFilter LockKeyError
    LockLostError LockNotHeldError LockService LockShutdownError LockSignal LockStoreError
    LockWaitTimeoutError Locked LockedInterceptor getLockServiceToken isLockError lockKey memoryStore
    systemClock toHttpException
  `,
  'stores/redis/index.ts':
    '<NodeRedisClient> <NodeRedisCluster> <NodeRedisSentinel> <RedisStoreOptions> <RedisTarget> redisStore',
  'stores/sql/postgres/index.ts': `
    <Listen> <PGliteDatabase> <PostgresConfig> <PostgresHandle> <PostgresPool> <PostgresStoreOptions>
    <PostgresTarget> lockTableSql postgresStore
  `,
  'stores/sql/mysql/index.ts': '<MysqlStoreOptions> <MysqlTarget> lockTableSql mysqlStore',
  'stores/sql/sqlite/index.ts': '<SqliteStoreOptions> sqliteStore',
  'stores/etcd/index.ts': '<EtcdAuth> <EtcdStoreOptions> <EtcdTls> etcdStore',
  'stores/zookeeper/index.ts': '<ZookeeperStoreOptions> <ZookeeperTarget> zookeeperStore',
  'stores/quorum/index.ts': '<QuorumNodeState> <QuorumStoreOptions> quorumStore',
  'observe/otel/index.ts': `
    <LockMetricsModuleOptions> <LockMetricsOptions> <LockTracingModuleOptions> <LockTracingOptions>
    LockMetricsModule LockTracingModule measureLocks traceLocks
  `,
  'observe/health/index.ts': 'LockHealthIndicator',
  'leader/index.ts': `
    <Leader> <LeaderOptions> <Term> CurrentTerm InjectLeader LeaderModule OnDemoted OnElected OnlyLeader
    getLeaderToken
  `,
  'admin/index.ts': '<LockAdminOptions> LockAdminModule',
  'fencing/index.ts': `
    <Fence> <FencedKeys> <FencedRedisOptions> <FencedRequest> <FencingHeadersOptions> <HeldUntilCommitOptions> <NestedWrites>
    <NodeRedisScriptingClient> <RedisWord> <ScriptingClient> <SqlAnswer> <SqlDialect> <SqlQuery> <SqlRow> CommitRefusedError CurrentFence
    FenceMemory Fenced FencedGuard FencedRedis ProcessFences StaleTokenError fencedRedis fencingHeaders
    heldUntilCommit
  `,
  'testing/index.ts': `
    <ContractCaseName> <ContractDeviations> <Fate> <Faults> <StoreCapability> <StoreCommand> <StoreUnderTest>
    <TestLocksOptions> FaultyStore ManualClock TestLocks describeLockStoreContract
  `,
};
const ENTRY_POINTS = Object.keys(EXPORTS);

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

  it.each(ENTRY_POINTS)('of %s is this list', (entry) => {
    expect(exportsOf(entry)).toEqual(EXPORTS[entry]?.trim().split(/\s+/));
  });
});
