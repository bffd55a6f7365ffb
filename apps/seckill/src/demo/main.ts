import { parseArgs } from 'node:util';
import { freezeHolder } from './frozen-holder.js';
import { killHolder } from './killed-holder.js';
import { sellWithLock, sellWithoutLock } from './sale.js';
import { openStage } from './stage.js';

const USAGE = `npm run demo -- [--stock <n>] [--buyers <n>]

Plays a flash sale over three processes: with the lock, without it, with a holder that is killed, and with one that is
frozen until it has lost the lock.

DATABASE_URL   a Postgres for the goods; without it an embedded one, in memory
REDIS_URL      a Redis for the locks; without it they are in the Postgres of the goods`;

const INSTANCES = 3;
/** A killed process blocks its item for so long. The default of 30 s would only make the demo longer. */
const WATCHDOG_MS = 3000;

try {
  const { values } = parseArgs({
    options: {
      stock: { type: 'string', default: '100' },
      buyers: { type: 'string', default: '1000' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) console.log(USAGE);
  else
    await play({ stock: readCount('--stock', values.stock), buyers: readCount('--buyers', values.buyers) });
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}

async function play({ stock, buyers }: { readonly stock: number; readonly buyers: number }): Promise<void> {
  console.log(`Starting ${INSTANCES} processes of the shop …`);
  const env = { ...process.env, PORT: '0', WATCHDOG_MS: String(WATCHDOG_MS) };
  const stage = await openStage(INSTANCES, env);
  // A frozen process would outlive the demo.
  process.once('exit', () => stage.shop.instances.forEach(({ process: child }) => child.kill('SIGKILL')));
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  const scenes = [
    [`${buyers} buyers, ${stock} pieces, with the lock`, () => sellWithLock(stage, { stock, buyers })],
    ['the same without the lock', () => sellWithoutLock(stage, { stock, buyers })],
    ['a holder that is frozen', () => freezeHolder(stage)],
    ['a holder that is killed', () => killHolder(stage)],
  ] as const;
  try {
    for (const [index, [title, playScene]] of scenes.entries()) {
      console.log(`\n${index + 1}. ${title[0]!.toUpperCase()}${title.slice(1)}`);
      console.log((await playScene()).replaceAll(/^/gm, '   '));
    }
  } finally {
    await stage.close();
  }
}

function readCount(option: string, text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new Error(`${option} must be a whole number from 1 to 999999; it is "${text}".`);
}
