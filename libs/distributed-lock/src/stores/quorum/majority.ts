import type { Clock } from '../../time/clock.js';

/** One outcome for each node, in their order. `undefined` where the node has not answered yet. */
export type Outcomes<T> = readonly (PromiseSettledResult<T> | undefined)[];

/** How many of `nodes` are a majority: any two majorities have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/**
 * Collects outcomes until they are enough, or all are there. Never rejects.
 *
 * @param timeout after which `isEnough` is asked once more, with `isLate`; by default never
 */
export function gather<T>(
  asked: readonly Promise<T>[],
  isEnough: (outcomes: Outcomes<T>, isLate: boolean) => boolean,
  timeout?: { readonly clock: Clock; readonly ms: number },
): Promise<Outcomes<T>> {
  return new Promise((resolve) => {
    const outcomes: (PromiseSettledResult<T> | undefined)[] = asked.map(() => undefined);
    let isLate = false;
    const check = (): void => {
      if (outcomes.includes(undefined) && !isEnough(outcomes, isLate)) return;
      cancel?.();
      resolve([...outcomes]);
    };
    const cancel = timeout?.clock.after(timeout.ms, () => {
      isLate = true;
      check();
    });
    for (const [i, promise] of asked.entries()) {
      const note = (outcome: PromiseSettledResult<T>): void => {
        outcomes[i] = outcome;
        check();
      };
      promise.then(
        (value) => note({ status: 'fulfilled', value }),
        (reason: unknown) => note({ status: 'rejected', reason }),
      );
    }
  });
}

export function answersOf<T>(outcomes: Outcomes<T>): T[] {
  return outcomes.flatMap((outcome) => (outcome?.status === 'fulfilled' ? [outcome.value] : []));
}

export function count<Kind>(replies: readonly { readonly kind: Kind }[], kind: NoInfer<Kind>): number {
  return replies.filter((reply) => reply.kind === kind).length;
}

/** The largest number that at least `least` of the values reach. `values` has that many. */
export function reachedBy(least: number, values: readonly number[]): number {
  return values.toSorted((a, b) => b - a)[least - 1] as number;
}
