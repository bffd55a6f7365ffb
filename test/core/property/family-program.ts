import fc from 'fast-check';
import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';

export const PERMITS = 4;
export const PROCESSES = 3;

interface Ask {
  readonly do: 'ask';
  readonly process: number;
  readonly key: 'book' | 'pool';
  readonly options: CallOptions;
  /** Released after that many ms by itself; otherwise by a later step, or at the end. */
  readonly holdMs: number | undefined;
}

export type Step =
  | Ask
  | { readonly do: 'release' | 'abort' | 'downgrade'; readonly which: number }
  | { readonly do: 'extend'; readonly which: number; readonly ms: number }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'crash'; readonly process: number };

/** How long things take: a clock that a test moves may take its time, a real one may not. */
export interface Pace {
  readonly waitsMs: readonly number[];
  readonly holdsMs: readonly (number | undefined)[];
  readonly leasesMs: readonly number[];
  readonly passesMs: readonly number[];
}

/** The book is read and written, the pool is taken by permits. */
const claim: fc.Arbitrary<Pick<Ask, 'key' | 'options'>> = fc.oneof(
  { weight: 4, arbitrary: book({ mode: 'shared' }) },
  { weight: 2, arbitrary: book({ mode: 'exclusive' }) },
  { weight: 1, arbitrary: book({}) },
  {
    weight: 5,
    arbitrary: fc.record({
      key: fc.constant('pool' as const),
      options: fc.record({
        permits: fc.constant(PERMITS),
        weight: fc.integer({ min: 1, max: PERMITS }),
      }),
    }),
  },
);

function book(options: CallOptions): fc.Arbitrary<Pick<Ask, 'key' | 'options'>> {
  return fc.constant({ key: 'book', options });
}

function ask({ waitsMs, holdsMs, leasesMs }: Pace): fc.Arbitrary<Step> {
  return fc
    .record({
      process: fc.nat({ max: PROCESSES - 1 }),
      claim,
      waitMs: fc.constantFrom(...waitsMs),
      fair: fc.constantFrom(false, false, true),
      leaseMs: fc.constantFrom(undefined, undefined, undefined, ...leasesMs),
      holdMs: fc.constantFrom(...holdsMs),
    })
    .map(({ process, claim: { key, options }, waitMs, fair, leaseMs, holdMs }) => {
      const lease = leaseMs === undefined ? {} : { leaseMs };
      return { do: 'ask', process, key, options: { ...options, ...lease, waitMs, fair }, holdMs };
    });
}

/** @param withCrashes processes may die, and new ones come */
export function program(pace: Pace, withCrashes: boolean): fc.Arbitrary<readonly Step[]> {
  const which = fc.nat({ max: 6 });
  const one = (what: 'release' | 'abort' | 'downgrade') => fc.record({ do: fc.constant(what), which });
  const step = fc.oneof(
    { weight: 12, arbitrary: ask(pace) },
    { weight: 5, arbitrary: one('release') },
    { weight: 3, arbitrary: one('abort') },
    { weight: 3, arbitrary: one('downgrade') },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('extend' as const),
        which,
        ms: fc.constantFrom(...pace.leasesMs),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(...pace.passesMs) }),
    },
    {
      weight: withCrashes ? 1 : 0,
      arbitrary: fc.record({ do: fc.constant('crash' as const), process: fc.nat({ max: PROCESSES - 1 }) }),
    },
  );
  return fc.array(step, { minLength: 5, maxLength: 50, size: 'max' });
}
