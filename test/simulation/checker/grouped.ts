/** Items by what `keysOf` names, each group in the order of the items. */
export function grouped<T>(
  items: readonly T[],
  keysOf: (item: T) => readonly string[],
): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    for (const key of new Set(keysOf(item))) {
      const group = groups.get(key);
      if (group) group.push(item);
      else groups.set(key, [item]);
    }
  }
  return groups;
}

/** The name of a call, which is unique in its process alone. */
export function idOf({ process, call }: { readonly process: string; readonly call: string }): string {
  return `${process} ${call}`;
}

/** @param items in the order in which they begin @returns the index of the first that begins after `at` */
export function firstAfter(items: readonly { readonly from: number }[], at: number): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((items[middle] as { readonly from: number }).from > at) high = middle;
    else low = middle + 1;
  }
  return low;
}
