// npm run nightly [-- slow faults …]: what takes long, or what a busy machine can make fail, and .ci/run therefore leaves out.
// Runs all parts, or those that are named, one after the other. CONTRIBUTING.md says which part covers what.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const STORES = ['documents', 'redis', 'quorum', 'etcd', 'zookeeper'];
const npm = (script, ...args) => ['npm', 'run', '--silent', script, '--', ...args];
const node = (...args) => [process.execPath, ...args];
const faults = (store, ...kinds) =>
  npm('chaos', '--seconds', '6', '--store', store, ...kinds.flatMap((kind) => ['--kind', kind]));

/** The commands of each part. One that fails does not keep the others from running. */
const PARTS = {
  slow: [npm('test:slow')],
  stores: [node('tools/fetch-servers.mjs'), npm('test:stores')],
  interop: [npm('test:interop')],
  faults: [
    faults('redis', 'mixed', 'mixed-quorum'),
    ...['postgres', 'mysql', 'mariadb', 'etcd', 'zookeeper'].map((store) => faults(store, 'mixed')),
  ],
  simulation: [
    ...STORES.map((store) =>
      npm('simulate', '--store', store, '--from', 'tree', '--minutes', '5', '--jobs', '2', '--all'),
    ),
    ['env', 'FAST_CHECK_SEED=random', ...npm('test:unit')],
    node('tools/install-in.mjs', 'verification/bench/peers'),
    ...['ours', 'ours-3'].map((name) =>
      npm('simulate', '--contestant', name, '--from', 'tree', '--minutes', '2'),
    ),
    npm('test', 'test/simulation/contestants'),
  ],
  porcupine: [
    npm('test', 'test/simulation/export'),
    npm('porcupine', '--from', 'tree', '--minutes', '4', '--mutants', '5'),
  ],
  package: [
    node('tools/build-once.mjs'),
    ['npx', '--no-install', 'publint', 'libs/distributed-lock', '--strict'],
    ['npx', '--no-install', 'attw', '--pack', 'libs/distributed-lock'],
    node('test/package/run.mjs'),
    node('tools/install-in.mjs', 'test/observe/subscribers'),
    node('test/observe/subscribers/run.mjs', 'sentry'),
    node('test/observe/subscribers/run.mjs', 'open-telemetry'),
  ],
  runtimes: [node('tools/runtimes.mjs')],
  site: [npm('docs'), npm('docs', 'check')],
};

const given = process.argv.slice(2);
const unknown = given.filter((name) => !(name in PARTS));
if (unknown.length > 0)
  throw new Error(`No part is named ${unknown.join(', ')}. The parts: ${Object.keys(PARTS).join(', ')}.`);

const results = [];
for (const name of given.length > 0 ? given : Object.keys(PARTS)) {
  for (const [program, ...args] of PARTS[name]) {
    const command = [program === process.execPath ? 'node' : program, ...args].join(' ');
    console.log(`\n== ${name}: ${command}`);
    const startedAt = performance.now();
    // A part fails in CI, and is not skipped, where a server or a runtime cannot be had.
    const env = { ...process.env, CI: 'true' };
    const shell = process.platform === 'win32';
    const { status } = spawnSync(program, args, { cwd: ROOT, env, stdio: 'inherit', shell });
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    results.push({ name, command, seconds, isGood: status === 0 });
  }
}

console.log('');
for (const { name, command, seconds, isGood } of results)
  console.log(`${isGood ? 'ok    ' : 'FAILED'} ${name}, ${seconds} s: ${command}`);
const failed = results.filter(({ isGood }) => !isGood).length;
console.log(`${results.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
