import { readCommandLine } from '../command-line/read-command-line.js';
import { usage } from '../command-line/usage.js';
import { readConfig } from '../config.js';
import { withStore } from '../stores/with-store.js';
import { START } from './options.js';

try {
  const values = readCommandLine(START, process.argv.slice(2), process.env);
  if (values === undefined) console.log(usage(START));
  else {
    const config = readConfig(withStore(START, values, process.env));
    if (values.instances > 1) await (await import('./serve-many.js')).serveMany(values.instances, config);
    else await (await import('./serve-one.js')).serveOne(config);
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
