// The application under load, as a process that speaks JSON lines like the contestants' do.
import { createInterface } from 'node:readline';
import { startApp } from './app.mjs';
import { startHot } from './hot.mjs';
import { microsecondsPerCall } from './methods.mjs';
import { startSale } from './sale.mjs';

let cpu = process.cpuUsage();

const TASKS = {
  open: async ({ url }) => ({ url: await startApp(url) }),
  sale: startSale,
  hot: startHot,
  methods: async ({ count }) => ({ us: await microsecondsPerCall(count) }),
  /** CPU since the last call. */
  cpu: async () => {
    const { user, system } = process.cpuUsage(cpu);
    cpu = process.cpuUsage();
    return { cpuUs: user + system };
  },
};

const commands = createInterface({ input: process.stdin });
commands.once('close', () => process.exit());
for await (const line of commands) {
  const { task, ...details } = JSON.parse(line);
  const answer = await TASKS[task](details).catch((error) => ({ error: String(error?.stack ?? error) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
