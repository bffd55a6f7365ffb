import type { Backend } from '../backends/backend.js';
import type { Latency } from '../network/network.js';
import { checkCandidate } from './candidate.js';
import { ONCE } from './once.js';
import { checkLocked } from './check-locked.js';
import {
  doing,
  fields,
  isObject,
  listOf,
  nameOr,
  number,
  oneOf,
  optional,
  refuse,
  text,
  whole,
  type Check,
} from './checks.js';
import type {
  Act,
  Asking,
  CallOptionsPlan,
  CallPlan,
  ClaimPlan,
  FaultPlan,
  Plan,
  ProcessPlan,
  Step,
  StreamPlan,
} from './plan.js';
import { checkSettings, SETTINGS } from './settings.js';

export const HOWS: readonly Asking['how'][] = [
  'withLock',
  'acquire',
  'tryAcquire',
  'unshared',
  'stream',
  'handler',
  'method',
];
const OPTIONS = fields<CallOptionsPlan>({
  waitMs: optional(nameOr('Infinity', number(0))),
  maxWaiting: optional(whole(0)),
  leaseMs: optional(number(1)),
  mode: optional(oneOf('exclusive', 'shared')),
  permits: optional(whole(1)),
  weight: optional(whole(1)),
  fair: optional(oneOf(true, false)),
  holdAtLeastMs: optional(number(0)),
  onBusy: optional(oneOf('takeover')),
  graceMs: optional(whole(10)),
  onLost: optional(oneOf('ignore')),
});
const CLAIM = fields<ClaimPlan>({
  mode: optional(oneOf('exclusive', 'shared')),
  permits: optional(whole(1)),
  weight: optional(whole(1)),
});
const CLAIMS: Check = (value, at) => {
  if (!isObject(value)) return refuse(at, 'an object', value);
  for (const [key, claim] of Object.entries(value)) CLAIM(claim, `${at}.${key}`);
};
const STREAM = fields<StreamPlan>({
  kind: oneOf('generator', 'web stream', 'readable'),
  reader: oneOf('reads', 'leaves', 'drops'),
});
const EVENT = oneOf('asked', 'acquired', 'ended');

const NO_CHECK: Check = () => undefined;

/**
 * A plan may come from a file that somebody has written. Options of a call are checked for their type; which of them go together is
 * for the library to say.
 *
 * @throws InputError that names the field
 */
export function checkPlan(plan: unknown, backend: Backend): asserts plan is Plan {
  const processes = isObject(plan) && Array.isArray(plan['processes']) ? plan['processes'] : [];
  const who = nameOr('holder', nameOr('waiter', nameOr('anyone', whole(0, processes.length - 1))));
  fields<Plan>({
    store: oneOf(backend.name),
    seed: text,
    watchdogTimeoutMs: number(1),
    storeOptions: storeOptionsOf(backend),
    latency: fields<Latency>({ least: number(0), spread: number(0) }),
    serverRates: optional(listOf(number(0.1, 10))),
    processes: listOf(
      fields<ProcessPlan>({
        rate: number(0.1, 10),
        timeOfDayDrifts: optional(oneOf(true)),
        isNamed: optional(oneOf(true)),
        offsetMs: number(-Infinity),
        services: whole(1),
        farMs: optional(number(0)),
        listener: optional(oneOf('throws', 'blocks', 'calls')),
        settings: optional(SETTINGS),
      }),
      1,
    ),
    calls: listOf((call, at) => checkCall(call, at, processes)),
    onces: optional(listOf(ONCE)),
    candidates: optional(
      listOf(
        checkCandidate(
          doing({ ...stepsOf(leastServices(processes)), lead: {}, resign: {} }),
          processes.length,
          leastServices(processes),
        ),
      ),
    ),
    faults: listOf(
      fields<FaultPlan>({
        when: triggerOf(backend, who),
        afterMs: optional(number(0)),
        act: (act, at) =>
          doing(actsOf({ ...backend, servers: serversOf(plan, backend) }, who, leastServices(processes)))(
            act,
            at,
          ),
      }),
    ),
    calm: optional(oneOf('without scenes')),
  })(plan, 'plan');
  checkSettings(plan as Plan, 'plan');
}

/** The other options are those of the store. */
function storeOptionsOf({ optionChecks = {} }: Backend): Check {
  return (value, at) => {
    if (!isObject(value)) return refuse(at, 'an object', value);
    const checks = Object.entries({ commandTimeoutMs: number(1), ...optionChecks });
    for (const [name, check] of checks) check(value[name], `${at}.${name}`);
  };
}

/** Of a plan whose options have been checked. */
function serversOf(plan: unknown, backend: Backend): number {
  return backend.serverCount((plan as Plan).storeOptions);
}

function checkCall(call: unknown, at: string, processes: readonly unknown[]): void {
  if (!isObject(call)) return refuse(at, 'an object', call);
  const { process } = call;
  whole(0, processes.length - 1)(process, `${at}.process`);
  const services = servicesOf(processes[Number(process)]);
  const ownFields = { process: whole(0), atMs: number(0) };
  fields<CallPlan>({ ...ownFields, ...askingOf(services) })(call, at);
  checkLocked(call, at);
}

/** What a plan may ask for, by name. */
export const STEPS = Object.keys(stepsOf(1));
export const ACTS = Object.keys(actsOf({ servers: 1, serverEvents: [] }, NO_CHECK, 1));

function leastServices(processes: readonly unknown[]): number {
  return Math.min(...processes.map(servicesOf));
}

function servicesOf(process: unknown): number {
  return isObject(process) ? Number(process['services']) : 1;
}

function checkAsking(services: number): Check {
  return (call, at) => {
    fields<Asking>(askingOf(services))(call, at);
    checkLocked(call, at);
  };
}

/** @param services how many the process has */
function askingOf(services: number): Readonly<Record<keyof Asking, Check>> {
  return {
    service: whole(0, services - 1),
    how: oneOf(...HOWS),
    keys: listOf(text, 1),
    claims: optional(CLAIMS),
    options: OPTIONS,
    abortAfterMs: optional(number(0)),
    stream: optional(STREAM),
    locked: NO_CHECK,
    work: listOf((step, at) => doing(stepsOf(services))(step, at)),
    isUsedAfterwards: optional(oneOf(true)),
    isUnasked: optional(oneOf(true)),
    onAbort: optional(oneOf('blocks', 'calls', 'releases')),
  };
}

function stepsOf(services: number): Readonly<Record<Step['do'], Readonly<Record<string, Check>>>> {
  const lasting = { ms: number(0) };
  const calling: Readonly<Record<string, Check>> = { call: checkAsking(services) };
  return {
    sleep: lasting,
    block: lasting,
    extend: lasting,
    'keep for': lasting,
    'until lost': lasting,
    'until contended': lasting,
    downgrade: {},
    throw: {},
    inspect: {},
    list: {},
    held: {},
    'pass on': { to: listOf(whole(0), 1), holdAtLeastMs: number(1), afterMs: number(0), workMs: number(0) },
    nested: calling,
    beside: calling,
  };
}

/** Kinds of messages of each store. */
const ANY_STORE = ['any request', 'any reply', 'connect', 'connected', 'refused'];

function triggerOf({ kinds, sceneKinds = [] }: Backend, who: Check): Check {
  const message = oneOf(...new Set([...kinds, ...sceneKinds, ...ANY_STORE]));
  const happening = { event: EVENT, nth: whole(1), key: optional(text) };
  const since = optional(fields(happening));
  const byMessage = fields({ message, nth: whole(1), of: who, since });
  const byEvent = fields({ ...happening, of: who });
  const byTime = fields({ atMs: number(0) });
  return (value, at) => {
    if (isObject(value) && 'message' in value) byMessage(value, at);
    else if (isObject(value) && 'event' in value) byEvent(value, at);
    else byTime(value, at);
  };
}

function actsOf(
  { servers, serverEvents = [] }: { readonly servers: number } & Pick<Backend, 'serverEvents'>,
  who: Check,
  services: number,
): Readonly<Record<Act['do'], Readonly<Record<string, Check>>>> {
  const server = whole(0, servers - 1);
  const only = optional(server);
  const toProcess = { who, ms: number(0) };
  const toServer = { server, ms: number(0) };
  const anyMs = number(-Infinity);
  return {
    lose: {},
    break: {},
    'break after': {},
    hold: { ms: number(0) },
    stop: toProcess,
    suspend: toProcess,
    clock: { who, ms: anyMs },
    block: toProcess,
    cut: { ...toProcess, only },
    reset: { who, only, kind: optional(text) },
    call: { who, call: checkAsking(services) },
    crash: { who },
    abort: { who },
    replace: { ...toProcess, call: checkAsking(services) },
    restart: { ...toProcess, call: checkAsking(services) },
    drain: { who },
    resign: { who },
    'stand down': { who },
    stand: { who },
    close: { who },
    rate: { who, rate: number(0.1, 10) },
    force: { who, key: text, isNamed: optional(oneOf(true)) },
    'stop server': toServer,
    'crash server': toServer,
    'server clock': { server, ms: anyMs },
    refuse: toServer,
    'server event': { server, event: oneOf(...serverEvents) },
    forget: { how: oneOf('empty', 'stale') },
  };
}
