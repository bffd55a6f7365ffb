import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from '@jest/globals';
import { BACKENDS, backendOf } from '../backends/backends.js';
import { InputError } from '../input-error.js';
import { optionsOf } from '../options.js';
import { checkPlan } from './check-plan.js';
import { drawPlan } from './draw.js';
import { readPlan } from './read-plan.js';

const FOUND = fileURLToPath(new URL('../found', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'plans-'));
afterAll(() => rmSync(folder, { recursive: true }));

const CALL = { process: 0, atMs: 0, service: 0, how: 'withLock', keys: ['k'], options: {}, work: [] };
const PLAN = {
  store: 'documents',
  seed: 'a',
  watchdogTimeoutMs: 1000,
  storeOptions: { commandTimeoutMs: 300 },
  latency: { least: 1, spread: 2 },
  processes: [{ rate: 1, offsetMs: 0, services: 1 }],
  calls: [CALL],
  faults: [],
};
const FAULT = { when: { atMs: 5 }, act: { do: 'stop', who: 0, ms: 5 } };
const withCall = (changes: object) => ({ ...PLAN, calls: [{ ...CALL, ...changes }] });
const withLocked = (how: string, locked: object) =>
  withCall({ how, locked: { keys: 'function', gives: 'promise', ...locked } });
const withFault = (changes: object) => ({ ...PLAN, faults: [{ ...FAULT, ...changes }] });

/** What is told of a plan in a file. */
async function refusalOf(plan: unknown): Promise<string> {
  const file = join(folder, 'plan.json');
  writeFileSync(file, typeof plan === 'string' ? plan : JSON.stringify(plan));
  const error = await readPlan(file).then(
    () => new Error('it is accepted'),
    (refusal: unknown) => refusal,
  );
  expect(error).toBeInstanceOf(InputError);
  return (error as Error).message.replaceAll(file, 'FILE');
}

describe('a plan that somebody has written', () => {
  it.each<[plan: unknown, refusal: string]>([
    ['{', '--plan FILE cannot be read as JSON: '],
    [[], 'FILE: plan is an object, and not []. '],
    [
      { ...PLAN, store: 'mongo' },
      'FILE: The store is one of documents, redis, quorum, etcd, zookeeper, and not "mongo"',
    ],
    [{ ...PLAN, seed: 7 }, 'FILE: plan.seed is a text, and not 7. '],
    [{ ...PLAN, latency: undefined }, 'FILE: plan.latency is missing: it is an object. '],
    [
      { ...PLAN, storeOptions: {} },
      'plan.storeOptions.commandTimeoutMs is missing: it is a number from 1 on. ',
    ],
    [
      { ...PLAN, store: 'quorum', storeOptions: { commandTimeoutMs: 300, nodes: 2 } },
      'plan.storeOptions.nodes is a whole number from 3 to 9, and not 2. ',
    ],
    [{ ...PLAN, processes: [] }, 'plan.processes is a list that is not empty, and not []. '],
    [{ ...PLAN, fault: [] }, 'plan.fault is unknown; known are store, seed, '],
    [withCall({ process: 1 }), 'plan.calls[0].process is a whole number from 0 to 0, and not 1. '],
    [withCall({ service: 1 }), 'plan.calls[0].service is a whole number from 0 to 0, and not 1. '],
    [withCall({ how: 'lock' }), 'plan.calls[0].how is one of withLock, acquire, '],
    [withCall({ options: { ttl: 5 } }), 'plan.calls[0].options.ttl is unknown; known are waitMs, '],
    [
      withCall({ work: [{ do: 'sleep' }] }),
      'plan.calls[0].work[0].ms is missing: it is a number from 0 on. ',
    ],
    [
      withCall({
        work: [{ do: 'nested', call: CALL }],
      }),
      'plan.calls[0].work[0].call.process is unknown; known are service, how, ',
    ],
    [withLocked('method', { keys: 'name' }), 'plan.calls[0].locked.keys is one of function, templates, list'],
    [withLocked('method', { gives: 'stream' }), 'plan.calls[0].locked.gives is one of promise, throws, '],
    [withLocked('method', { isFree: false }), 'plan.calls[0].locked.isFree is one of true, and not false. '],
    [
      withLocked('method', { when: 1 }),
      'plan.calls[0].locked.when is unknown; known are keys, gives, reader, onBusy, isFree',
    ],
    [
      withLocked('withLock', {}),
      'plan.calls[0].locked is for a handler or a method, and this is a call by withLock',
    ],
    [
      withLocked('method', { reader: 'drops' }),
      'plan.calls[0].locked.reader is for an observable or a generator, and it gives: promise',
    ],
    [
      withLocked('handler', { gives: 'generator', onBusy: 'answer' }),
      'plan.calls[0].locked.onBusy is for a promise or throws, and it gives: generator',
    ],
    [
      withLocked('handler', { onBusy: 'skip' }),
      'plan.calls[0].locked.onBusy skip is for a method, and this is a handler',
    ],
    [
      { ...PLAN, processes: [{ ...PLAN.processes[0], settings: { shutdownGraceMs: -1 } }] },
      'plan.processes[0].settings.shutdownGraceMs is a number from 0 on, and not -1. ',
    ],
    [
      { ...PLAN, processes: [{ ...PLAN.processes[0], settings: { keyPrefix: 'my:' } }] },
      'plan.processes[0].settings.keyPrefix is one of , one:, another:, and not "my:". ',
    ],
    [
      { ...PLAN, processes: [{ ...PLAN.processes[0], settings: { keyPrefix: 'one:' } }, PLAN.processes[0]] },
      'plan.calm must be without scenes, because a process has a keyPrefix that another has not, or defaults: ',
    ],
    [
      { ...PLAN, processes: [{ ...PLAN.processes[0], settings: { defaults: { onBusy: 'takeover' } } }] },
      'plan.processes[0].settings.defaults.onBusy is unknown; known are waitMs, maxWaiting, leaseMs, ',
    ],
    [
      {
        ...PLAN,
        calm: 'without scenes',
        processes: [{ ...PLAN.processes[0], settings: { defaults: { mode: 'shared' } } }],
        candidates: [{ process: 0, service: 0, name: 'poller', atMs: 0, work: [] }],
      },
      'plan.candidates has one of process 0, whose defaults have leaseMs, permits or mode shared',
    ],
    [withCall({ onAbort: 'throws' }), 'plan.calls[0].onAbort is one of blocks, calls, releases, and not '],
    [withFault({ act: { do: 'kill', who: 0 } }), 'plan.faults[0].act.do is one of lose, break, '],
    [
      withFault({ act: { do: 'stop', who: 3, ms: 5 } }),
      'plan.faults[0].act.who is a whole number from 0 to 0, and not 3. ',
    ],
    [
      withFault({ act: { do: 'stop server', server: 9, ms: 5 } }),
      'plan.faults[0].act.server is a whole number from 0 to 0',
    ],
    [withFault({ when: { message: 'swop', nth: 1, of: 0 } }), 'plan.faults[0].when.message is one of '],
    [{ ...PLAN, calm: true }, 'plan.calm is one of without scenes, and not true. '],
    [withFault({ when: {} }), 'plan.faults[0].when.atMs is missing: it is a number from 0 on. '],
  ])('is refused with the field and what may stand there: %j', async (plan, refusal) => {
    expect(await refusalOf(plan)).toContain(refusal);
  });

  it('is told which file does not exist', async () => {
    await expect(readPlan('no-such.json')).rejects.toThrow('--plan no-such.json: there is no such file.');
  });

  it('runs if it is like those that have found a bug', async () => {
    for (const file of readdirSync(FOUND))
      await expect(readPlan(join(FOUND, file))).resolves.toHaveProperty('plan');
  });

  it.each(Object.keys(BACKENDS))('runs if it is one that a seed draws: %s', async (store) => {
    const backend = await backendOf(store);
    for (let seed = 1; seed <= 300; seed++)
      expect(() => checkPlan(drawPlan(backend, `${seed}`), backend)).not.toThrow();
  });
});

describe('a command line', () => {
  it.each<[line: string, refusal: string]>([
    ['--sed 7', "Unknown option '--sed'. --help lists the options."],
    ['7', "Unexpected argument '7'"],
    ['--seed seven', '--seed is a whole number from 0 on, and not "seven".'],
    ['--seed', "Option '--seed <value>' argument missing. --help lists the options."],
    ['--from trees', '--from is a whole number from 0 on, or tree, and not "trees".'],
    ['--count 0', '--count is a whole number from 1 on, and not "0".'],
    ['--minutes no', '--minutes is a number above 0, and not "no".'],
    ['--seed 7 --count 5', '--seed and --count do not go together'],
    ['--plan a.json --seed 5', '--plan and --seed do not go together'],
    ['--json', '--json and --words go with --plan.'],
    ['--shrink', '--shrink goes with --seed or --plan.'],
    ['--seed 7 --all', '--all goes with --count or --minutes.'],
    ['--seed 7 --safety', '--safety goes with --count or --minutes, and not with --jobs.'],
    ['--count 5 --jobs 2 --safety', '--safety goes with --count or --minutes, and not with --jobs.'],
  ])('is refused with what may stand there: %s', (line, refusal) => {
    expect(() => optionsOf(line.split(' '))).toThrow(InputError);
    expect(() => optionsOf(line.split(' '))).toThrow(refusal);
  });
});
