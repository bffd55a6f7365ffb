/**
 * @typedef {object} Verdict a figure, and whether this run reaches what was promised
 * @property {string} claim
 * @property {number} value
 * @property {string} limit such as "≥ 0.85"; '' where nothing was promised
 * @property {'reached' | 'not reached' | ''} outcome
 */

/** @param {string} claim @param {number} value @param {number} limit @returns {Verdict} */
export const atLeast = (claim, value, limit) => verdict(claim, value, `≥ ${digits(limit)}`, value >= limit);

/** An equal figure counts as reached, also if rounding made it a little more. @param {string} claim @param {number} value @param {number} limit @returns {Verdict} */
export const atMost = (claim, value, limit) =>
  verdict(claim, value, `≤ ${digits(limit)}`, value <= limit + 1e-9);

/** A figure without a promise. @param {string} claim @param {number} value @returns {Verdict} */
export const noLimit = (claim, value) => ({ claim, value, limit: '', outcome: '' });

const verdict = (claim, value, limit, reached) => ({
  claim,
  value,
  limit,
  outcome: reached ? 'reached' : 'not reached',
});

/** Significant digits, not decimals: shares are small, ratios are large. @param {number} value */
export const digits = (value) => String(Number(value.toPrecision(3)));

/** The least that any of them has in this figure; NaN without any. @param {object[]} peers @param {string} figure */
export const least = (peers, figure) => extreme(peers, figure, Math.min);

/** @param {object[]} peers @param {string} figure */
export const most = (peers, figure) => extreme(peers, figure, Math.max);

function extreme(peers, figure, choose) {
  const values = peers.map((peer) => peer[figure]).filter((value) => !Number.isNaN(value));
  return values.length === 0 ? NaN : choose(...values);
}

/** The peer with the largest value of this figure. All figures of "the best peer" are those of this one. @param {object[]} peers @param {string} figure */
export const best = (peers, figure) => peers.find((peer) => peer[figure] === most(peers, figure)) ?? {};

/**
 * Whether a peer refuses and starves no caller. Only then its waits compare with ours: a caller that never gets the lock has no wait in the
 * figures, so the waits of a peer that serves one caller alone look short.
 *
 * @param {{ failures: number, unfinished: number }} peer
 */
export const servesAll = ({ failures, unfinished }) => failures === 0 && unfinished === 0;
