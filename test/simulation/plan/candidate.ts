import type { Dice } from '../kernel/dice.js';
import { fields, number, oneOf, optional, whole, listOf, text, type Check } from './checks.js';
import type { FaultPlan, Step } from './plan.js';

/** A process stands for election as the leader of a name. */
export interface CandidatePlan {
  readonly process: number;
  readonly service: number;
  readonly name: string;
  readonly atMs: number;
  /** What its `@OnElected` method does in each term. */
  readonly work: readonly TermStep[];
  /** So often it calls `runAsLeader`, whether it leads or not. */
  readonly tickMs?: number;
  /** What a listener of `leader$` does at each election, beside others that listen. */
  readonly listener?: 'throws' | 'resigns' | 'closes';
  /** It resigns within a listener: of the term, of the event that tells of it, of the signal that aborts, or as it is demoted. */
  readonly resignsIn?: (typeof RESIGNS_IN)[number];
}

/** `lead` lasts until the signal of the term aborts, and throws the reason. `resign` waits for `resign()` in the work itself. */
export type TermStep = Step | { readonly do: 'lead' | 'resign' };

const RESIGNS_IN = ['leader$', 'elected', 'signal', 'demoted'] as const;

/** What a fault makes a candidate do: resign, close, or stand anew after that. */
export const CANDIDATE_ACTS = ['resign', 'stand down', 'stand'] as const;

export function checkCandidate(step: Check, processes: number, services: number): Check {
  return fields<CandidatePlan>({
    process: whole(0, processes - 1),
    service: whole(0, services - 1),
    name: text,
    atMs: number(0),
    work: listOf(step),
    tickMs: optional(number(1)),
    listener: optional(oneOf('throws', 'resigns', 'closes')),
    resignsIn: optional(oneOf(...RESIGNS_IN)),
  });
}

interface Elections {
  readonly candidates: readonly CandidatePlan[];
  readonly faults: readonly FaultPlan[];
}

/** Candidates of most processes for one name, and what happens to them beside all other faults. In one of eight plans. */
export function drawElections(dice: Dice, count: number, lengthMs: number): Elections | undefined {
  if (!dice.happens(0.12)) return undefined;
  const name = 'poller';
  const listeners = dice.fork('listeners');
  const standing = Array.from({ length: count }, (_, i) => i).filter(() => dice.happens(0.85));
  const candidates = standing.map((process): CandidatePlan => ({
    process,
    service: 0,
    name,
    atMs: dice.scale(1, lengthMs),
    work: drawTerm(dice),
    ...(dice.happens(0.5) && { tickMs: dice.scale(50, 2000) }),
    ...(dice.happens(0.2) && { listener: dice.pick(['throws', 'throws', 'resigns', 'closes'] as const) }),
    ...(listeners.happens(0.25) && { resignsIn: listeners.pick(RESIGNS_IN) }),
  }));
  const faults = Array.from({ length: dice.int(0, 4) }, (): FaultPlan => ({
    when: { atMs: dice.int(0, lengthMs) },
    act: { do: dice.pick(['resign', 'resign', ...CANDIDATE_ACTS]), who: dice.pick(['holder', ...standing]) },
  }));
  const key = `leader:${name}`;
  const aimed = Array.from({ length: dice.int(0, 2) }, (): FaultPlan => {
    const act = dice.pick([
      'resign',
      'stand down',
      'crash',
      'stop',
      'suspend',
      'block',
      'drain',
      'force',
    ] as const);
    const who = 'anyone';
    const ms = dice.scale(100, 20_000);
    return {
      when: { event: 'acquired', nth: dice.int(1, 3), of: 'anyone', key },
      afterMs: dice.happens(0.3) ? 0 : dice.scale(1, 3000),
      act:
        act === 'force'
          ? { do: act, who, key }
          : act === 'stop' || act === 'suspend' || act === 'block'
            ? { do: act, who, ms }
            : { do: act, who },
    };
  });
  return { candidates, faults: [...faults, ...aimed] };
}

function drawTerm(dice: Dice): readonly TermStep[] {
  const sleep: TermStep = { do: 'sleep', ms: dice.scale(10, 3000) };
  const nested: TermStep = {
    do: 'nested',
    call: {
      service: 0,
      how: 'withLock',
      keys: ['led'],
      options: { waitMs: 2000 },
      work: [{ do: 'sleep', ms: 10 }],
    },
  };
  return dice.pick<readonly TermStep[]>([
    [],
    [{ do: 'lead' }],
    [{ do: 'lead' }],
    [sleep],
    [sleep, nested, { do: 'lead' }],
    [sleep, { do: 'resign' }],
    [sleep, { do: 'throw' }],
    [{ do: 'block', ms: dice.scale(10, 3000) }, { do: 'lead' }],
  ]);
}
