import type { Dice } from '../kernel/dice.js';
import { InputError } from '../input-error.js';
import { fields, nameOr, number, oneOf, optional, whole } from './checks.js';
import type { CallOptionsPlan, CallPlan, FaultPlan, Plan, ProcessPlan } from './plan.js';

/** What calls may leave to their service. */
export type DefaultsPlan = Pick<
  CallOptionsPlan,
  'waitMs' | 'maxWaiting' | 'leaseMs' | 'mode' | 'permits' | 'weight' | 'fair' | 'holdAtLeastMs'
>;

/** How the services of one process are configured, where they are not as all others. */
export interface SettingsPlan {
  /** Default: `GRACE_MS`. */
  readonly shutdownGraceMs?: number | 'Infinity';
  /** Processes with different ones do not meet. */
  readonly keyPrefix?: (typeof KEY_PREFIXES)[number];
  /** Its store hears of the process then, or by its first call; default: as soon as it runs. */
  readonly joinsAtMs?: number;
  /** It runs from then on, and is nowhere before; default: from the start. */
  readonly startsAtMs?: number;
  readonly defaults?: DefaultsPlan;
}

/** What services may put before their keys. Servers have known all of them for long. */
export const KEY_PREFIXES = ['', 'one:', 'another:'] as const;

/** `shutdownGraceMs` of services that are not configured otherwise. */
export const GRACE_MS = 500;

export const SETTINGS = fields<SettingsPlan>({
  shutdownGraceMs: optional(nameOr('Infinity', number(0))),
  keyPrefix: optional(oneOf(...KEY_PREFIXES)),
  joinsAtMs: optional(number(0)),
  startsAtMs: optional(number(0)),
  defaults: optional(
    fields<DefaultsPlan>({
      waitMs: optional(nameOr('Infinity', number(0))),
      maxWaiting: optional(whole(0)),
      leaseMs: optional(number(1)),
      mode: optional(oneOf('exclusive', 'shared')),
      permits: optional(whole(1)),
      weight: optional(whole(1)),
      fair: optional(oneOf(true, false)),
      holdAtLeastMs: optional(number(0)),
    }),
  ),
});

/** @throws InputError for scenes of processes that cannot play them, and for candidates that the library would refuse */
export function checkSettings({ processes, calm, candidates = [] }: Plan, at: string): void {
  if (!mayPlayInCalm(processes) && calm === undefined)
    throw new InputError(
      `${at}.calm must be without scenes, because a process has a keyPrefix that another has not, or defaults: the calls of a scene share their keys, and name no option that they do not need`,
    );
  const stands = candidates.find(({ process }) => {
    const { leaseMs, mode, permits } = processes[process]?.settings?.defaults ?? {};
    return leaseMs !== undefined || mode === 'shared' || permits !== undefined;
  });
  if (stands)
    throw new InputError(
      `${at}.candidates has one of process ${stands.process}, whose defaults have leaseMs, permits or mode shared`,
    );
}

/** The same processes, some with settings. */
export function withSettings(
  dice: Dice,
  processes: readonly ProcessPlan[],
  lengthMs: number,
): readonly ProcessPlan[] {
  const isPrefixed = dice.happens(0.08);
  const common = isPrefixed && dice.happens(0.4) ? { keyPrefix: 'one:' as const } : undefined;
  return processes.map((process) => {
    const settings: SettingsPlan = {
      ...(dice.happens(0.12) && {
        shutdownGraceMs: dice.pick([0, 'Infinity', 'Infinity', dice.scale(10, 8000)] as const),
      }),
      ...(dice.happens(0.06) && { joinsAtMs: dice.int(1, lengthMs) }),
      ...(dice.happens(0.06) && { startsAtMs: dice.int(1, lengthMs) }),
      ...(isPrefixed && dice.happens(0.7) && { keyPrefix: dice.pick(['one:', 'one:', 'another:'] as const) }),
      ...common,
    };
    return Object.keys(settings).length > 0 ? { ...process, settings } : process;
  });
}

/** A process that starts or joins late makes its calls after that. */
export function laterThanJoining(
  calls: readonly CallPlan[],
  processes: readonly ProcessPlan[],
): readonly CallPlan[] {
  return calls.map((call) => {
    const { joinsAtMs = 0, startsAtMs = 0 } = processes[call.process]?.settings ?? {};
    const fromMs = Math.max(joinsAtMs, startsAtMs);
    return call.atMs < fromMs ? { ...call, atMs: fromMs + call.atMs } : call;
  });
}

/** Processes with a grace of their own are told to close. */
export function drawClosings(dice: Dice, processes: readonly ProcessPlan[]): readonly FaultPlan[] {
  return processes.flatMap(({ settings }, i): readonly FaultPlan[] => {
    if (settings?.shutdownGraceMs === undefined || dice.happens(0.3)) return [];
    const when = { event: 'acquired' as const, nth: dice.int(1, 4), of: i };
    const act = { do: dice.pick(['drain', 'close'] as const), who: i };
    return [{ when, ...(dice.happens(0.5) && { afterMs: dice.scale(1, 500) }), act }];
  });
}

/** Scenes of the calm are played by processes that meet, and whose calls have no options but their own. */
export function mayPlayInCalm(processes: readonly ProcessPlan[]): boolean {
  const prefixes = new Set(processes.map(({ settings }) => settings?.keyPrefix ?? ''));
  return prefixes.size === 1 && processes.every(({ settings }) => settings?.defaults === undefined);
}

/** Those options of `LockService`. */
export function serviceOptionsOf({
  shutdownGraceMs = GRACE_MS,
  keyPrefix = '',
  defaults = {},
}: SettingsPlan = {}) {
  const graceMs = shutdownGraceMs === 'Infinity' ? Infinity : shutdownGraceMs;
  const { waitMs, ...others } = defaults;
  const wait = waitMs === undefined ? {} : { waitMs: waitMs === 'Infinity' ? Infinity : waitMs };
  return { shutdownGraceMs: graceMs, keyPrefix, defaults: { ...others, ...wait } };
}
