// Measures the CPU time in which a process imports the library and its Redis store, and other libraries of locks on Redis, in turns:
//   npm run build && npm ci --prefix verification/bench/peers && node verification/bench/import.mjs [rounds]
// Each process has imported Nest, rxjs and ioredis before, and has collected what these left as garbage.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PEERS = new URL('./peers/', import.meta.url);
const OURS = ['nestjs-distributed-lock', 'nestjs-distributed-lock/redis'];
const LIBRARIES = { [OURS.join(' + ')]: OURS, redlock: ['redlock'], 'redis-semaphore': ['redis-semaphore'] };
const rounds = Number(process.argv[2] ?? 11);

const child = (specifiers) => `
  for (const it of ['reflect-metadata', '@nestjs/common', '@nestjs/core', 'rxjs', 'ioredis']) await import(it);
  gc();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const before = process.cpuUsage();
  for (const it of ${JSON.stringify(specifiers)}) await import(it);
  const { user, system } = process.cpuUsage(before);
  console.log((user + system) / 1000);`;

function measure(name) {
  const ours = LIBRARIES[name] === OURS;
  const cwd = fileURLToPath(ours ? new URL('../..', import.meta.url) : PEERS);
  const args = ['--expose-gc', '--input-type=module', '-e', child(LIBRARIES[name])];
  return Number(execFileSync(process.execPath, args, { cwd, encoding: 'utf8' }));
}

const times = Object.fromEntries(Object.keys(LIBRARIES).map((name) => [name, []]));
for (let round = 0; round < rounds; round++) for (const name in times) times[name].push(measure(name));
for (const [name, all] of Object.entries(times)) {
  const sorted = all.toSorted((a, b) => a - b);
  const [least, median] = [sorted[0], sorted[Math.floor(rounds / 2)]].map((ms) => ms.toFixed(1));
  console.log(`${name}: ${median} ms of CPU in the median, ${least} ms at least, of ${rounds} rounds`);
}
