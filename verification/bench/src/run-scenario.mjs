import { medianOf } from './measure/statistics.mjs';

/** Ours and the floor are measured in each round. Peers differ by more than noise, so one round of so many is enough. */
const PEERS_EVERY = 3;

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {string} name
 * @property {any} [figures] the median over the rounds
 * @property {string} [skipped] why there are no figures
 */

/**
 * Contestants alternate, so that a noisy minute of the machine affects all of them.
 *
 * @param {import('./stores/store.d.mts').Context} context @param {any} scenario of src/scenarios
 * @param {{ rounds: number, includes: (id: string) => boolean }} options
 * @returns {Promise<{ scenario: any, rows: Row[], verdicts: import('./report/targets.mjs').Verdict[] }>}
 */
export async function runScenario(context, scenario, options) {
  const wanted = scenario.entrants().filter(({ id }) => options.includes(id));
  const entrants = wanted.map((entrant) => ({ ...entrant, ...entrant.prepare?.() }));
  const rounds = new Map(entrants.map(({ id }) => [id, []]));
  const failed = new Map();
  for (let round = 0; round < Math.min(options.rounds, scenario.rounds ?? Infinity); round++) {
    for (const entrant of entrants) {
      if (entrant.skipped || failed.has(entrant.id) || (isPeer(entrant) && round % PEERS_EVERY !== 0))
        continue;
      progress(`${scenario.id} ${round + 1}: ${entrant.name}`);
      try {
        rounds.get(entrant.id).push(await scenario.measure(context, entrant));
      } catch (error) {
        failed.set(entrant.id, `failed: ${error.message.split('\n').slice(0, 3).join(' ')}`);
      }
    }
  }
  progress('');
  const rows = entrants.map(({ id, name, skipped }) => {
    const reason = skipped ?? failed.get(id);
    return reason ? { id, name, skipped: reason } : { id, name, figures: medianOf(rounds.get(id)) };
  });
  return { scenario, rows, verdicts: verdicts(scenario, rows) };
}

/** Compared by figures of their own: JVMs, and a lock without a lease. */
const APART = /^(redisson|curator|raw)\b/;

/** A claim about contestants that have not run is NaN, and is left out. */
function verdicts(scenario, rows) {
  const of = (id) => rows.find((row) => row.id === id)?.figures ?? {};
  const others = rows.filter((row) => isPeer(row) && !APART.test(row.id));
  const ours = { ours: of('ours'), awaited: of('ours-awaited') };
  const apart = { redisson: of('redisson'), curator: of('curator'), raw: of('raw') };
  const known = { ...ours, ...apart, floor: of('floor'), rows };
  const claims = scenario.targets({ ...known, others: others.flatMap(({ figures }) => figures ?? []) });
  return claims.filter(({ value }) => Number.isFinite(value));
}

/** @param {{ id: string }} one */
const isPeer = ({ id }) => !/^(ours|floor|queue)\b/.test(id);

/** Prints on a terminal only. @param {string} text */
function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}
