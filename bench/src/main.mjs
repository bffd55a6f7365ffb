// Compares this library with its peers and with the least that a lock on Redis costs: npm run bench
import { openContext } from './context.mjs';
import { parseOptions } from './options.mjs';
import { printResult, printVerdicts } from './report/console.mjs';
import { writeReport } from './report/page.mjs';
import { runScenario } from './run-scenario.mjs';
import { SCENARIOS } from './scenarios/index.mjs';

const options = parseOptions(
  process.argv.slice(2),
  SCENARIOS.map(({ id }) => id),
);
const startedAt = performance.now();
const context = await openContext(options);
const results = [];
try {
  for (const scenario of SCENARIOS.filter(({ id }) => options.runs(id))) {
    const result = await runScenario(context, scenario, options);
    results.push(result);
    printResult(result);
  }
  printVerdicts(results);
  const minutes = (performance.now() - startedAt) / 60_000;
  if (options.out) {
    await writeReport(options.out, results, { redis: await context.observer.version(), minutes, options });
  }
} finally {
  await context.close();
}
