// Client CPU of one lock in memory on each version of Node, in turns: npm run build && node verification/bench/runtimes.mjs [rounds]
// Versions other than the one that runs this come from the package registry.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const rounds = Number(process.argv[2] ?? 7);
const cwd = fileURLToPath(new URL('../..', import.meta.url));
const child = `
  import { AsyncLocalStorage } from 'node:async_hooks';
  import { LockService, memoryStore } from 'nestjs-distributed-lock';
  const locks = new LockService({ store: memoryStore(), application: false });
  const work = async () => {};
  const settings = {
    'outside of any context': (run) => run(),
    "in a request's context": (run) => new AsyncLocalStorage().run({}, run),
    'under another lock': (run) => locks.withLock('outer', run),
  };
  const measure = async (count) => {
    const before = process.cpuUsage();
    for (let i = 0; i < count; i++) await locks.withLock('inner', work);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / count;
  };
  const found = {};
  for (const [name, enter] of Object.entries(settings)) {
    await enter(() => measure(20_000));
    found[name] = await enter(() => measure(20_000));
  }
  await locks.close();
  console.log(JSON.stringify({ version: process.version, found }));`;

const [own] = process.versions.node.split('.');
/** @returns {[command: string, args: readonly string[]]} */
const fetched = (major) => [
  'npm',
  ['exec', '-y', '--package', `node-${process.platform}-${process.arch}@${major}`, '--', 'node'],
];
/** @type {readonly [command: string, args: readonly string[]][]} */
const runtimes = [20, 22, 24].map((major) =>
  Number(own) === major ? [process.execPath, []] : fetched(major),
);

const least = {};
for (let round = 0; round < rounds; round++) {
  for (const [command, args] of runtimes) {
    const options = { cwd, encoding: 'utf8', env: { ...process.env, NODE_ENV: 'production' } };
    const text = execFileSync(command, [...args, '--input-type=module', '-e', child], options);
    const { version, found } = JSON.parse(text);
    for (const [name, us] of Object.entries(found)) {
      const row = (least[name] ??= {});
      row[version] = Math.min(row[version] ?? Infinity, Math.round(us * 10) / 10);
    }
  }
}
console.log('Least µs of CPU for one withLock:');
console.table(least);
