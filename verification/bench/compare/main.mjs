// npm run bench -- compare: writes the tables of docs/compare.md that programs can fill in (README.md).
import { CHECKS } from './checks/index.mjs';
import { LIBRARIES } from './libraries.mjs';
import { PACKAGES, PACKAGE_ROWS } from './tables/packages.mjs';
import { markdownOf, writeTable } from './tables/page.mjs';
import { runChecks } from './runs/run-checks.mjs';

const [flag, some] = process.argv.slice(2);

if (flag === '--print') {
  const libraries = some?.split(',') ?? Object.keys(LIBRARIES);
  console.log(await markdownOf(await checks(libraries)));
} else {
  await writeTable('packages', packages());
  await writeTable('checks', await checks(Object.keys(LIBRARIES)));
}

async function checks(libraries) {
  const answers = await Promise.all(libraries.map(runChecks));
  const rows = Object.entries(CHECKS).map(([name, { says }]) => [says, ...answers.map((it) => it[name])]);
  return { heads: libraries, rows };
}

function packages() {
  const rows = Object.entries(PACKAGE_ROWS).map(([says, of]) => [says, ...Object.values(PACKAGES).map(of)]);
  return { heads: Object.keys(PACKAGES), rows };
}
