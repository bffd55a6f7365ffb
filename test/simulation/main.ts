// npm run simulate -- --store documents --seed 7 | [--from tree] --count 100 | --minutes 10 | --plan file [--shrink] [--words] [--json]
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { backendOf } from './backends/backends.js';
import { dataOf } from './data.js';
import { judge, replay } from './replay.js';
import { search } from './search.js';
import { seedOfTree } from './tree-seed.js';
import type { Plan } from './plan/plan.js';
import { drawPlan } from './plan/draw.js';

const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'documents' },
    seed: { type: 'string' },
    plan: { type: 'string', multiple: true },
    /** The first of several seeds; `tree`: that of the commit, whose next one has others. */
    from: { type: 'string', default: '1' },
    count: { type: 'string' },
    minutes: { type: 'string' },
    shrink: { type: 'boolean', default: false },
    words: { type: 'boolean', default: false },
    /** With --plan: prints the history as data, and nothing else. */
    json: { type: 'boolean', default: false },
    /** Looks for more failures after the first, and prints each in one line. */
    all: { type: 'boolean', default: false },
  },
});

process.exitCode = (await run()) ? 0 : 1;

async function run(): Promise<boolean> {
  const { store, seed, plan: files, shrink } = values;
  if (files) {
    let areGood = true;
    for (const file of files) {
      const plan = JSON.parse(readFileSync(file, 'utf8')) as Plan;
      if (values.json) {
        const outcome = await judge(plan, await backendOf(plan.store));
        console.log(JSON.stringify(dataOf(outcome), undefined, 1));
        areGood = outcome.violations.length === 0 && areGood;
        continue;
      }
      const words = values.words ? 'always' : 'if it fails';
      areGood = (await replay(plan, await backendOf(plan.store), { shrink, words, name: file })) && areGood;
    }
    return areGood;
  }
  const backend = await backendOf(store);
  if (seed !== undefined)
    return replay(drawPlan(backend, seed), backend, { shrink, words: 'always', name: `seed ${seed}` });
  return search(backend, {
    from: values.from === 'tree' ? seedOfTree() : Number(values.from),
    count: values.count === undefined ? Infinity : Number(values.count),
    minutes: values.minutes === undefined ? Infinity : Number(values.minutes),
    all: values.all,
  });
}
