// Compares this library with its peers and with the least that a lock on the same server costs: npm run bench
import { loadavg } from 'node:os';
import { parseOptions } from './options.mjs';
import { printResult, printVerdicts } from './report/console.mjs';
import { writeReport } from './report/page.mjs';
import { runScenario } from './run-scenario.mjs';
import { STORES } from './stores/index.mjs';

const options = parseOptions(process.argv.slice(2), STORES);
const { store } = options;
/** By other programs. It tells whether the machine was shared. */
const [load] = loadavg();
const startedAt = performance.now();
const context = { ...(await store.open()), ms: options.ms };
const results = [];
try {
  for (const scenario of store.scenarios.filter(({ id }) => options.runs(id))) {
    const result = await runScenario(context, scenario, options);
    results.push(result);
    printResult(result);
  }
  printVerdicts(results);
  const minutes = (performance.now() - startedAt) / 60_000;
  if (options.out) {
    const version = await context.observer.version();
    await writeReport(options.out, results, { store, version, load, minutes, options });
  }
} finally {
  await context.close();
}
