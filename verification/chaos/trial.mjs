import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { watchPauses } from './app/watch-pauses.mjs';
import { COMMAND_MS, GRACE_MS, LEASE_MS, SESSION_MS } from './constants.mjs';
import { excusesOf } from './faults/excuses.mjs';
import { checkHistory } from './history/check-history.mjs';
import { readHistory } from './history/read-history.mjs';
import { recordTo } from './history/recorder.mjs';
import { now } from './now.mjs';
import { Random } from './random.mjs';
import { SESSIONS } from './stores.mjs';
import { World } from './world/world.mjs';

const WARM_UP_MS = 700;
const CALM_MS = 2000;
/** How long after its lease a lock may be there that nobody gave back. */
const ORPHAN_MS = 250;
const TRAFFIC = { apps: 3, keys: 3, callersPerKey: 2 };
const leaseOn = (store) => (SESSIONS.includes(store) ? SESSION_MS : LEASE_MS);

/**
 * Runs the service under one kind of fault, records what happens, and has the history judged.
 *
 * @type {import('./index.d.mts').runTrial}
 */
export async function runTrial({ store = 'redis', kind, seed, seconds, folder, traffic = {} }) {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const random = new Random(`${seed} ${kind.name}`);
  const file = join(folder, 'runner.jsonl');
  const record = recordTo(file, 'runner');
  const world = await World.open({
    folder,
    storeName: store,
    kind,
    seed,
    random,
    record,
    traffic: { ...TRAFFIC, leaseMs: leaseOn(store), ...kind.traffic, ...traffic },
  });
  const stopWatching = watchPauses(record);
  try {
    const { traffic: load, keys } = world;
    record('trial', {
      store,
      kind: kind.name,
      seed,
      keys,
      leaseMs: load.leaseMs,
      commandTimeoutMs: COMMAND_MS,
      graceMs: GRACE_MS,
      workload: load.workload,
      aborts: load.abortRate > 0,
      callers: load.apps * load.keys * load.callersPerKey,
      limits: kind.limits,
      wallAt: Date.now(),
      shiftsClock: kind.shift !== undefined,
    });
    await disturb(world, kind, now() + seconds * 1000);
    record('calm');
    await pause(Math.max(CALM_MS, (kind.recoverMs ?? 0) + 1000));
    record('closing-all');
    await world.closeApps();
    record('remains', { keys: await remainsOf(world) });
  } finally {
    stopWatching();
    await world.stop();
  }
  const history = readHistory([file, ...world.files]);
  await writeFile(join(folder, 'history.jsonl'), history.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return checkHistory(history);
}

/** One fault after the other, with calm between them. */
async function disturb(world, kind, endsAt) {
  await pause(WARM_UP_MS);
  while (now() < endsAt) {
    world.record('sample', await world.store.sample());
    const { recoverMs = 0 } = (await injectOnce(world, kind)) ?? {};
    const calmMs = recoverMs + world.random.between(200, 800);
    await pause(Math.min(calmMs, Math.max(0, endsAt - now())));
  }
}

/** @returns what was recorded of the fault; nothing if there is none */
async function injectOnce(world, kind) {
  if (!kind.inject) return undefined;
  const from = now();
  try {
    const told = await kind.inject(world);
    const to = now();
    await kind.after?.(world, told);
    const fault = { ...excusesOf(kind), from, to, cleanAt: now(), ...told?.fault };
    world.record('fault', fault);
    return fault;
  } catch (error) {
    world.record('fault-failed', { kind: kind.name, error: String(error.stack ?? error) });
    return undefined;
  }
}

/** The keys left when the last lease must be over. Resolves at once if no lock is left. */
async function remainsOf({ store, keys, traffic }) {
  const endsAt = now() + traffic.leaseMs + ORPHAN_MS;
  for (;;) {
    const found = await store.remains(keys);
    if (now() > endsAt || !found.some(({ name }) => keys.includes(name))) return found;
    await pause(LEASE_MS / 10);
  }
}
