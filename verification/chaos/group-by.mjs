/**
 * `Map.groupBy`, which Node has from version 21 on.
 *
 * @template T, K @param {readonly T[]} list @param {(item: T) => K} keyOf @returns {Map<K, T[]>}
 */
export function groupBy(list, keyOf) {
  const groups = new Map();
  for (const item of list) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}
