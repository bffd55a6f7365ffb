// One process of a contestant: reads one JSON object per line, does what it names, answers with one line.
// A program in another language takes part by doing the same; it needs `open`, `turns` and, for the hop, `hops`.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { listen, publish } from './bare-hop.mjs';
import { crowd, hold, idle } from './holding.mjs';
import { hops } from './hops.mjs';
import { turns } from './turns.mjs';

const TASKS = { turns, hops, hold, crowd, idle, listen, publish };
const [, , module] = process.argv;

/** Peers reject in the background; that is counted, and must not end the run. */
let strayErrors = 0;
process.on('unhandledRejection', () => strayErrors++);
process.on('uncaughtException', () => strayErrors++);

const commands = createInterface({ input: process.stdin });
// Its pipe closes however the benchmark ends.
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
