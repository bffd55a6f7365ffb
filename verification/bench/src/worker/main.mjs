// One process of a contestant: reads one JSON object per line, carries out its task, answers with one line.
// A program in another language takes part by doing the same. It needs `open`, `turns` and, for the scenario hop, `hops`.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { listen, publish } from './bare-hop.mjs';
import { crowd, hold, idle } from './holding.mjs';
import { hops } from './hops.mjs';
import { turns } from './turns.mjs';

const TASKS = { turns, hops, hold, crowd, idle, listen, publish };
const [, , module] = process.argv;

/** Peers reject in the background. The rejection is counted, and must not end the run. */
let strayErrors = 0;
process.on('unhandledRejection', () => strayErrors++);
process.on('uncaughtException', () => strayErrors++);

const commands = createInterface({ input: process.stdin });
// The pipe closes whenever the benchmark ends, also when it is killed.
commands.once('close', () => process.exit());
let contestant;
for await (const line of commands) {
  const { task, ...details } = JSON.parse(line);
  const answer = await perform(task, details).catch((error) => ({ error: String(error?.stack ?? error) }));
  process.stdout.write(`${JSON.stringify({ ...answer, strayErrors })}\n`);
}

async function perform(task, details) {
  if (task !== 'open') return TASKS[task](contestant, details);
  const { open } = await import(pathToFileURL(module).href);
  contestant = await open(details.url, details.options ?? {});
}
