import { Random } from '../random.mjs';

/**
 * The keys of a trial. The first two differ in their braces only, and the third may be named like the permits of the first:
 * what belongs to one lock must not be taken for that of another.
 *
 * Permits have names of their own, since Redisson keeps those of `x` and of `{x}` in one place.
 *
 * @param {{ count: number, workload?: string, seed: string | number }} trial
 */
export function keyNames({ count, workload, seed }) {
  const random = new Random(`${seed} names`);
  const names =
    workload === 'permits'
      ? ['chaos:1', random.pick(['{chaos:2}', '{chaos:2}:x', 'chaos:2'])]
      : ['chaos:1', '{chaos:1}', random.pick(['{chaos:1}:timeout', '{chaos:3}:x', 'chaos:3'])];
  const others = Array.from({ length: count }, (_, i) => `chaos:${i + 1}`);
  return [...names, ...others.slice(names.length)].slice(0, count);
}

/** All that belongs to a lock in Redis. @param {string} key */
export function partsOf(key) {
  const [, tag] = /^[^{]*\{([^}]+)\}/.exec(key) ?? [];
  const suffix = tag === undefined ? `{${key}}` : `{${tag}}:${key}`;
  return [key, `nest_lock_queue:${suffix}`, `nest_lock_meta:${suffix}`, `nest_lock_token:${suffix}`];
}
