import { folderOf } from '../folders.mjs';
import { runTrial } from '../trial.mjs';

const PRELOAD = new URL('./preload.mjs', import.meta.url).href;
/** How the machine schedules decides what a fault meets: one seed alone may miss. */
const SEEDS = ['5', '6', '7'];

/**
 * Runs the mutant under the faults of its kind, until it is found out.
 *
 * @param {import('../index.d.mts').Mutant} mutant @param {{ kind: import('../index.d.mts').Kind, seconds: number }} trial
 * @returns {Promise<string[]>} the rules that were found broken, with the last seed that was tried
 */
export async function convict(mutant, { kind, seconds }) {
  const env = { NODE_OPTIONS: `--import ${PRELOAD}`, CHAOS_MUTANT: JSON.stringify(mutant) };
  const { store = 'redis' } = mutant;
  let rules = [];
  for (const seed of SEEDS) {
    const folder = folderOf({ store, kind: `mutant-${kind.name}`, seed });
    const { findings } = await runTrial({ store, kind: { ...kind, env }, seed, seconds, folder });
    rules = [...new Set(findings.map(({ rule }) => rule))];
    if (mutant.rules.some((rule) => rules.includes(rule))) break;
  }
  return rules;
}
