import type { Backend } from '../backends/backend.js';
import { Dice } from '../kernel/dice.js';
import { drawElections } from './candidate.js';
import { drawCalls } from './draw-calls.js';
import { drawFaults } from './draw-faults.js';
import { drawClaim, drawKeys, type KeyPlan } from './keys.js';
import type { Plan } from './plan.js';
import { drawScenes } from './scene.js';
import { leftToDefaults, namingClaims, withDefaults } from './draw-defaults.js';
import { drawOnces } from './once.js';
import { drawClosings, laterThanJoining, mayPlayInCalm, withSettings } from './settings.js';
import { scenesWithout } from './scenes/scenes.js';

/** docs/guarantees.md, time: two clocks differ in speed by less than 1 %. */
const FASTEST = 1.0049;

/** Of so many plans one has the scenes of the calm, which take as long as all the rest of a history. */
const SCENES_IN_CALM_EVERY = 4;

const THEMES = ['mixed', 'mixed', 'long', 'changing'] as const;

/** The plan of a seed. */
export function drawPlan(backend: Backend, seed: string): Plan {
  const dice = new Dice(`${backend.name} ${seed}`);
  const watchdogTimeoutMs = dice.pick([1000, 2000, 3000, 10_000, 30_000]);
  const storeOptions = backend.drawOptions(dice.fork('store'), watchdogTimeoutMs);
  const { commandTimeoutMs } = storeOptions;
  // A round trip is well within a command, as the deadlines of the stores expect.
  const least = dice.happens(0.6) ? dice.scale(1, 5) : dice.scale(5, commandTimeoutMs / 5);
  const latency = { least, spread: dice.scale(1, commandTimeoutMs / 4) };
  // Its round trip takes up to half of a command, so that others are first with each write.
  const mostFarMs = Math.floor(commandTimeoutMs / 4 - least - latency.spread);
  const hasFar = backend.hasFarProcesses && mostFarMs > 0 && dice.happens(0.15);
  const clocks = dice.fork('clocks');
  const listeners = dice.fork('listeners');
  const servers = backend.serverCount(storeOptions);
  const serverRates = Array.from({ length: servers }, () => drawRate(clocks));
  const plain = Array.from({ length: dice.int(2, 4) }, (_, i) => ({
    rate: drawRate(clocks),
    ...(clocks.happens(0.7) && { timeOfDayDrifts: true as const }),
    ...(clocks.happens(0.6) && { isNamed: true as const }),
    offsetMs: dice.int(-500, 500),
    services: dice.happens(0.15) ? 2 : 1,
    ...(hasFar && i === 0 && { farMs: mostFarMs }),
    ...(listeners.happens(0.08) && { listener: listeners.pick(['throws', 'blocks', 'calls'] as const) }),
  }));
  const keys = drawKeys(dice, backend.cannot ?? []);
  const lengthMs = dice.scale(2000, 30_000);
  const settings = dice.fork('settings');
  const processes = withSettings(settings, plain, lengthMs);
  const theme = dice.pick(backend.hasSessions ? [...THEMES, 'beyond the session' as const] : THEMES);
  const sceneDice = dice.fork('scenes');
  const frame = {
    dice: sceneDice,
    processes: processes.length,
    servers,
    messages: backend.messages,
    latencyMs: latency.least + latency.spread,
    watchdogTimeoutMs,
  };
  const pool = { shared: scenesWithout(backend.cannot), own: backend.scenes?.(storeOptions) ?? [] };
  const scenes = drawScenes({ ...frame, storeOptions }, pool, lengthMs);
  const hasScenes = scenes.length > 0;
  const faults = drawFaults({
    dice: dice.fork('faults'),
    kinds: backend.kinds,
    writes: backend.writes ?? [],
    processes: processes.length,
    servers,
    serverEvents: backend.serverEvents ?? [],
    keys: keys.map(({ key }) => key),
    claimOf: (key) => drawClaim(dice, keys[key] as KeyPlan),
    watchdogTimeoutMs,
    commandTimeoutMs,
    lengthMs,
    mayForget: true,
    hasSessions: backend.hasSessions ?? false,
    losesByCrash: (storeOptions['afterCrash'] ?? 'everything') !== 'everything',
  });
  const calls = drawCalls({
    theme,
    canCount: !backend.cannot?.includes('permits'),
    dice: dice.fork('calls'),
    keys,
    processes,
    watchdogTimeoutMs,
    latencyMs: least,
    lengthMs,
    most: hasScenes ? 6 : 40,
  });
  const elections = drawElections(dice.fork('elections'), processes.length, lengthMs);
  const onces = drawOnces(dice.fork('onces'), { processes, watchdogTimeoutMs, lengthMs });
  const configured = withDefaults(dice.fork('defaults'), processes, {
    keys,
    hasCandidates: elections !== undefined,
    watchdogTimeoutMs,
    mayBeFair: !backend.cannot?.includes('fair'),
  });
  return {
    store: backend.name,
    seed,
    watchdogTimeoutMs,
    storeOptions,
    latency,
    serverRates,
    processes: configured,
    calls: leftToDefaults(
      [...laterThanJoining(calls, processes), ...scenes.flatMap((it) => it.calls)],
      configured,
    ),
    faults: namingClaims(
      [
        ...(hasScenes && sceneDice.happens(0.8) ? [] : faults),
        ...scenes.flatMap((it) => it.faults),
        ...(elections?.faults ?? []),
        ...drawClosings(settings, processes),
      ],
      configured,
    ),
    ...(onces && { onces }),
    ...(elections && { candidates: elections.candidates }),
    ...((!mayPlayInCalm(configured) || !dice.fork('calm').happens(1 / SCENES_IN_CALM_EVERY)) && {
      calm: 'without scenes' as const,
    }),
  };
}

/** Extremes most often: it takes a slow clock and a fast one to use up the margin of a lease. */
function drawRate(dice: Dice): number {
  if (dice.happens(0.6)) return dice.pick([FASTEST, 1 / FASTEST]);
  return 1 + (dice.random() - 0.5) * 2 * (FASTEST - 1);
}
