import { parseArgs } from 'node:util';
import { freezeHolder } from './frozen-holder.js';
import { killHolder } from './killed-holder.js';
import { sellWithLock, sellWithoutLock, type Sale } from './sale.js';
import { openStage, type Stage } from './stage.js';

const USAGE = `npm run demo -- [--scene <name>] [--stock <n>] [--buyers <n>]

Plays a flash sale over three processes, in four scenes:

locked         the sale with the lock
unlocked       the same without the lock
frozen         a holder that is frozen until it has lost the lock
killed         a holder that is killed

--scene        plays this one alone

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
      scene: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) console.log(USAGE);
  else {
    const sale = { stock: readCount('--stock', values.stock), buyers: readCount('--buyers', values.buyers) };
    await play(chooseScenes(values.scene, sale));
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}

interface Scene {
  readonly name: string;
  readonly title: string;
  play(stage: Stage): Promise<string>;
}

function chooseScenes(name: string | undefined, sale: Sale): readonly Scene[] {
  const scenes: readonly Scene[] = [
    {
      name: 'locked',
      title: `${sale.buyers} buyers, ${sale.stock} pieces, with the lock`,
      play: (stage) => sellWithLock(stage, sale),
    },
    { name: 'unlocked', title: 'The same without the lock', play: (stage) => sellWithoutLock(stage, sale) },
    { name: 'frozen', title: 'A holder that is frozen', play: freezeHolder },
    { name: 'killed', title: 'A holder that is killed', play: killHolder },
  ];
  const chosen = name === undefined ? scenes : scenes.filter((scene) => scene.name === name);
  if (chosen.length > 0) return chosen;
  throw new Error(`There is no scene "${name}": ${scenes.map((scene) => scene.name).join(', ')}.`);
}

async function play(scenes: readonly Scene[]): Promise<void> {
  console.log(`Starting ${INSTANCES} processes of the shop …`);
  const env = { ...process.env, PORT: '0', WATCHDOG_MS: String(WATCHDOG_MS) };
  const stage = await openStage(INSTANCES, env);
  // A frozen process would outlive the demo.
  process.once('exit', () => stage.shop.instances.forEach(({ process: child }) => child.kill('SIGKILL')));
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  try {
    for (const [index, scene] of scenes.entries()) {
      console.log(`\n${index + 1}. ${scene.title}`);
      console.log((await scene.play(stage)).replaceAll(/^/gm, '   '));
    }
  } finally {
    await stage.close();
  }
}

function readCount(option: string, text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new Error(`${option} must be a whole number from 1 to 999999; it is "${text}".`);
}
