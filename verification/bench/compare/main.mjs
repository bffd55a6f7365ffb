// npm run bench -- compare: writes the tables of docs/compare.md that programs can fill in (README.md).
import { CHECKS } from './checks/index.mjs';
import { LIBRARIES } from './libraries.mjs';
import { DOCUMENTED, NEEDS } from './tasks/documented.mjs';
import { SYSTEMS } from './tasks/systems.mjs';
import { TASKS } from './tasks/tasks.mjs';
import { PACKAGES, PACKAGE_ROWS } from './tables/packages.mjs';
import { markdownOf, writeTable } from './tables/page.mjs';
import { runChecks } from './runs/run-checks.mjs';

/** The tables of the page, by name. `fill` gets the columns that are asked for. */
const TABLES = {
  packages: { columns: Object.keys(PACKAGES), fill: packages },
  checks: { columns: Object.keys(LIBRARIES), fill: checks },
  tasks: { columns: [...Object.keys(SYSTEMS), ...Object.keys(DOCUMENTED)], fill: tasks },
};

const [flag, some] = process.argv.slice(2);

if (flag === '--print') {
  const asked = some?.split(',');
  const of = ({ columns }) => columns.filter((it) => asked?.includes(it) ?? true);
  for (const table of [TABLES.checks, TABLES.tasks]) {
    if (of(table).length > 0) console.log(await markdownOf(await table.fill(of(table))));
  }
} else {
  const only = flag === '--only' ? some.split(',') : Object.keys(TABLES);
  for (const name of only) await writeTable(name, await TABLES[name].fill(TABLES[name].columns));
}

async function checks(libraries) {
  const script = new URL('runs/run-check.mjs', import.meta.url);
  const answers = await Promise.all(libraries.map((it) => runChecks(script, it, CHECKS)));
  const rows = Object.entries(CHECKS).map(([name, { says }]) => [says, ...answers.map((it) => it[name])]);
  return { heads: libraries, rows };
}

async function tasks(systems) {
  const script = new URL('runs/run-task.mjs', import.meta.url);
  const answers = await Promise.all(systems.map((it) => DOCUMENTED[it] ?? runChecks(script, it, TASKS)));
  const rows = Object.entries(TASKS).map(([name, { says }]) => [
    says,
    ...answers.map((it) => it[name] ?? '?'),
  ]);
  const needs = ['What must run beside the application', ...systems.map((it) => NEEDS[it])];
  return { heads: systems, rows: [...rows, needs] };
}

function packages(libraries) {
  const installed = libraries.map((it) => PACKAGES[it]);
  const rows = Object.entries(PACKAGE_ROWS).map(([says, of]) => [says, ...installed.map(of)]);
  return { heads: libraries, rows };
}
