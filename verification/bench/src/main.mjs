// Compares this library with its peers and with the least that a lock on the same server costs: npm run bench
import { BUSY, busyCores, BusyMachineError, untilQuiet } from './measure/busy-cores.mjs';
import { commitHere } from './measure/commit.mjs';
import { parseOptions } from './options.mjs';
import { printResult, printVerdicts } from './report/console.mjs';
import { writeReport } from './report/page.mjs';
import { runScenario } from './run-scenario.mjs';
import { STORES } from './stores/index.mjs';

const options = parseOptions(process.argv.slice(2), STORES);
const { store } = options;
/** Whether the figures are to be those of a quiet machine. */
const isStrict = !options.busy;
const commit = commitHere();
const busyBefore = options.out ? await (isStrict ? untilQuiet() : busyCores()).catch(endWith) : NaN;
const startedAt = performance.now();
const context = { ...(await store.open()), ms: options.ms, warmUpMs: options.warmUpMs };
const results = [];
let version;
try {
  for (const scenario of store.scenarios.filter(({ id }) => options.runs(id))) {
    const result = await runScenario(context, scenario, options);
    results.push(result);
    printResult(result);
  }
  printVerdicts(results);
  version = await context.observer.version();
} finally {
  await context.close();
}
const minutes = (performance.now() - startedAt) / 60_000;
if (options.out) {
  // Who came meanwhile is found, as long as it is still there. The run's own processes may take a moment to end.
  const busyAfter = await (isStrict ? untilQuiet({ patienceMs: 15_000 }) : busyCores()).catch(endWith);
  const busy = Math.max(busyBefore, busyAfter);
  await writeReport(options.out, results, { store, version, commit, busy, minutes, options });
}

/** @param {Error} error @returns {never} */
function endWith(error) {
  if (!(error instanceof BusyMachineError)) throw error;
  console.error(error.message);
  process.exit(BUSY);
}
