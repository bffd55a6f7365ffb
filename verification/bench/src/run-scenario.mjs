import { medianOf } from './measure/statistics.mjs';

/** Ours and the floor have a turn in each round. Peers differ by more than noise, so one of so many rounds is enough. */
const PEERS_EVERY = 3;

/**
 * How many turns a contestant has in a scenario.
 *
 * @param {import('./stores/store.d.mts').BenchedStore} store @param {any} scenario @param {{ rounds: number, brief?: boolean }} options
 * @returns {(entrant: { id: string }) => number}
 */
function turnsIn(store, scenario, { rounds, brief }) {
  const most = Math.min(rounds, scenario.rounds ?? Infinity);
  const others = Math.ceil(most / PEERS_EVERY);
  const [ours, peers, jvm = 0] = brief ? store.brief[scenario.id] : [most, others, others];
  return ({ id }) => (JVM.test(id) ? jvm : isPeer({ id }) ? peers : ours);
}

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {string} name
 * @property {any} [figures] the median over the turns
 * @property {string} [skipped] why there are no figures
 */

/**
 * Contestants alternate, so that a noisy minute of the machine affects all of them.
 *
 * @param {import('./stores/store.d.mts').Context} context @param {any} scenario of src/scenarios
 * @param {{ rounds: number, brief?: boolean, store: import('./stores/store.d.mts').BenchedStore, includes: (id: string) => boolean }} options
 * @returns {Promise<{ scenario: any, rows: Row[], verdicts: import('./report/targets.mjs').Verdict[] }>}
 */
export async function runScenario(context, scenario, options) {
  const turnsOf = turnsIn(options.store, scenario, options);
  const wanted = scenario.entrants().filter((it) => options.includes(it.id) && turnsOf(it) > 0);
  const entrants = wanted.map((entrant) => ({ ...entrant, ...entrant.prepare?.() }));
  const rounds = new Map(entrants.map(({ id }) => [id, []]));
  const failed = new Map();
  for (let round = 0; round < Math.max(...entrants.map(turnsOf)); round++) {
    for (const entrant of entrants) {
      if (entrant.skipped || failed.has(entrant.id) || round >= turnsOf(entrant)) continue;
      progress(`${scenario.id} ${round + 1}: ${entrant.name}`);
      try {
        rounds.get(entrant.id).push(await scenario.measure(context, entrant));
      } catch (error) {
        failed.set(entrant.id, `failed: ${error.message.split('\n')[0]}`);
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

const JVM = /^(redisson|curator)\b/;
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
