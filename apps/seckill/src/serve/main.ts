import { readCommandLine } from '../command-line/read-command-line.js';
import { usage } from '../command-line/usage.js';
import { readConfig } from '../config.js';
import { START } from './options.js';

try {
  const values = readCommandLine(START, process.argv.slice(2), process.env);
  if (values === undefined) console.log(usage(START));
  else if (values.instances > 1) {
    const { serveMany } = await import('./serve-many.js');
    await serveMany(values.instances, readConfig(process.env));
  } else await import('../main.js');
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
