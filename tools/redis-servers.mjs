// node tools/redis-servers.mjs: the Redis suites on each server that speaks Redis' protocol and can be had here. Writes what came out into the
// table of docs/redis-servers.md. node tools/redis-servers.mjs "Redis 8.0" "Valkey 9.1": these alone; the other rows stay.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatMarkdown } from '#markdown';
import { OTHER_REDIS_SERVERS, fetchRedisServer, findRedisServer } from '#redis-server';

const PAGE = new URL('../docs/redis-servers.md', import.meta.url);
const MARKS = { from: '<!-- node tools/redis-servers.mjs -->', to: '<!-- to here -->' };
const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Each column: a group of the contract of stores, or the suites in a folder of test/redis. */
const COLUMNS = {
  'exclusive lock':
    /contract: .*(exclusion|expiry and succession|renewal|release|closing|inspection and force)/,
  'waiting, hand-off': /contract: .*(waiting|notifications)/,
  'read-write lock': /contract: .*shared mode/,
  permits: /contract: .*permits/,
  'several keys': /contract: .*several keys/,
  tokens: /contract: .*fencing|tokens-shared|shared-tokens/,
  'Redisson’s format': /^protocol/,
  'commands on the wire': /^wire/,
  'names and data of others': /^keys|contract: .*keys/,
  'connections cut': /^faults\/(connections|idle-connections)/,
  'Cluster, Sentinel, replicas': /^faults\/topologies/,
};
const SUITES = [
  'conformance/',
  'protocol/',
  'wire/',
  'keys/',
  'faults/connections',
  'faults/idle-connections',
  'faults/topologies',
];

/** @param {string} command */
function versionOf(command) {
  const text = execFileSync(command, ['--version'], { encoding: 'utf8' });
  const [, name, version] = /^(\w+) server v=(\S+)/.exec(text) ?? [];
  return `${name} ${version}`;
}

/** @param {string} command @returns {{ cells: string[], failed: string[] }} */
function tryServer(command) {
  const folder = mkdtempSync(join(tmpdir(), 'redis-servers-'));
  const env = { ...process.env, REDIS_SERVER_BIN: command, REDIS_URL: '' };
  const file = join(folder, 'results.json');
  const jest = ['run', '--silent', 'test', '--', '--json', `--outputFile=${file}`];
  spawnSync('npm', [...jest, ...SUITES.map((suite) => `test/redis/${suite}`)], {
    cwd: ROOT,
    env,
    stdio: 'ignore',
  });
  const tests = readResults(file);
  rmSync(folder, { recursive: true });
  const cells = Object.values(COLUMNS).map((column) => {
    const all = tests.filter(({ place }) => column.test(place));
    return `${all.filter(({ passed }) => passed).length} of ${all.length}`;
  });
  const chaos = ['run', '--silent', 'chaos', '--', '--kind', 'mixed'];
  const isKept = () => spawnSync('npm', chaos, { cwd: ROOT, env, stdio: 'ignore' }).status === 0;
  // The fault suite starts its servers with options that Redis 7 brought.
  const faults = versionOf(command).startsWith('Redis 6') ? '–' : isKept() ? 'kept' : 'broken';
  return {
    cells: [...cells, faults],
    failed: tests.filter((it) => !it.passed).map((it) => it.name),
  };
}

/** @param {string} file */
function readResults(file) {
  const { testResults } = JSON.parse(readFileSync(file, 'utf8'));
  return testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'passed' || status === 'failed')
      .map(({ ancestorTitles, fullName, status }) => {
        const [title = '', group = ''] = ancestorTitles;
        const suite = name.slice(name.indexOf('test/redis/') + 'test/redis/'.length);
        const place = suite.startsWith('conformance/redis') ? `contract: ${title} ${group}` : suite;
        return { place, name: fullName, passed: status === 'passed' };
      }),
  );
}

const wanted = process.argv.slice(2);
const found = findRedisServer();
const commands = [
  ...(found.container || wanted.length > 0 ? [] : [found.command]),
  ...OTHER_REDIS_SERVERS.filter((name) => wanted.length === 0 || wanted.includes(name)).map((name) => {
    const command = fetchRedisServer(name);
    if (!command) console.log(`${name}: not to be had here`);
    return command;
  }),
].filter(Boolean);

const rows = [];
for (const command of commands) {
  const server = versionOf(command);
  const { cells, failed } = tryServer(command);
  console.log(
    `${server}: ${Object.keys(COLUMNS)
      .map((column, i) => `${column} ${cells[i]}`)
      .join(', ')}, faults ${cells.at(-1)}`,
  );
  for (const name of failed) console.log(`  failed: ${name}`);
  rows.push([server, ...cells]);
}
const page = readFileSync(PAGE, 'utf8');
const [before] = page.split(MARKS.from);
const [, after] = page.split(MARKS.to);
const kept = page
  .slice(before.length, -after.length)
  .split('\n')
  .map((line) => line.split('|').slice(1, -1))
  .map((cells) => cells.map((cell) => cell.trim()))
  .filter(([server]) => /\d/.test(server ?? '') && !rows.some(([name]) => name === server));
rows.push(...kept);
rows.sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));

const head = ['Server', ...Object.keys(COLUMNS), 'faults, mixed'];
const table = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
writeFileSync(PAGE, await formatMarkdown(`${before}${MARKS.from}\n\n${table}\n\n${MARKS.to}${after}`));
