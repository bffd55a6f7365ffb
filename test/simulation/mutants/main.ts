// npm run simulate:mutants [-- --store redis] [--minutes 5] [--only text]: which broken rules the simulation finds, and how fast
import { parseArgs } from 'node:util';
import { convict, type Verdict } from './convict.js';
import { MUTANTS } from './mutants.js';

const { values } = parseArgs({
  options: {
    store: { type: 'string' },
    minutes: { type: 'string', default: '5' },
    only: { type: 'string', default: '' },
  },
});

const chosen = MUTANTS.filter(
  ({ store, says, hidden }) =>
    (values.store ?? store) === store && says.includes(values.only) && hidden === undefined,
);
const verdicts: Verdict[] = [];
for (const mutant of chosen) {
  const verdict = await convict(mutant, Number(values.minutes));
  verdicts.push(verdict);
  const { seconds, text } = verdict;
  console.log(
    `${seconds === undefined ? 'NOT FOUND' : `${seconds.toFixed(1)} s`} | ${mutant.store} | ${mutant.says} | ${text}`,
  );
}
const found = verdicts.filter(({ seconds }) => seconds !== undefined).length;
console.log(`${found} of ${verdicts.length} found`);
process.exitCode = found >= 0.9 * verdicts.length ? 0 : 1;
