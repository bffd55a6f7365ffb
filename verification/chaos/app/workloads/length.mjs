import { LEASE_MS } from '../../constants.mjs';

/**
 * Mostly short, and if `mayBeLong` a few that need renewals; in ms.
 *
 * @param {import('../../random.mjs').Random} random @param {number} shortMs @param {boolean} mayBeLong
 */
export function lengthOf(random, shortMs, mayBeLong) {
  const lengthMs = random.pick([shortMs, shortMs, shortMs, 5 * shortMs]) * random.next();
  const isLong = random.chance(0.03) && mayBeLong && shortMs >= 20;
  return isLong ? random.between(0.5, 1.3) * LEASE_MS : lengthMs;
}
