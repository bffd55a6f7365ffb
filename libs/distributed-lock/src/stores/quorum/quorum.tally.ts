import type { Clock } from '../../time/clock.js';

/** Outcomes in the order of asking; `undefined` where there is none yet. */
export type Outcomes<T> = readonly (PromiseSettledResult<T> | undefined)[];

/** How many of `nodes` are a majority: any two majorities have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/** Whether what is there suffices; `isLate` once the time for it is over. */
export type Suffices<T> = (outcomes: Outcomes<T>, isLate: boolean) => boolean;

/**
 * Hears answers until they suffice, or all are there.
 *
 * Never rejects. Answers that come later are not lost on those who listen to the promises themselves.
 *
 * @param time after which to be content with less, in ms; by default never
 */
export function gather<T>(
  asked: readonly Promise<T>[],
  suffices: Suffices<T>,
  time?: { readonly clock: Clock; readonly ms: number },
): Promise<Outcomes<T>> {
  return new Promise((resolve) => {
    const outcomes: (PromiseSettledResult<T> | undefined)[] = asked.map(() => undefined);
    let isLate = false;
    const check = (): void => {
      if (outcomes.includes(undefined) && !suffices(outcomes, isLate)) return;
      cancel?.();
      resolve([...outcomes]);
    };
    const cancel = time?.clock.after(time.ms, () => {
      isLate = true;
      check();
    });
    const note = (i: number, outcome: PromiseSettledResult<T>): void => {
      outcomes[i] = outcome;
      check();
    };
    for (const [i, promise] of asked.entries()) {
      promise.then(
        (value) => note(i, { status: 'fulfilled', value }),
        (reason: unknown) => note(i, { status: 'rejected', reason }),
      );
    }
  });
}

export function answersOf<T>(outcomes: Outcomes<T>): T[] {
  return outcomes.flatMap((outcome) => (outcome?.status === 'fulfilled' ? [outcome.value] : []));
}

/** The largest number that `count` of the values reach; there must be that many. */
export function reachedBy(count: number, values: readonly number[]): number {
  return values.toSorted((a, b) => b - a)[count - 1] as number;
}
