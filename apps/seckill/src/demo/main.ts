import { readCommandLine } from '../command-line/read-command-line.js';
import { usage } from '../command-line/usage.js';
import { readConfig } from '../config.js';
import { withStore } from '../stores/with-store.js';
import { DEMO, demoOptions } from './options.js';

try {
  const values = readCommandLine(DEMO, process.argv.slice(2), process.env);
  if (values === undefined) console.log(usage(DEMO));
  else {
    const options = demoOptions(values);
    // Each instance takes a free port: that of `npm start` may be in use.
    const env = { ...withStore(DEMO, values, process.env), PORT: '0', LOCK: options.locked ? 'on' : 'off' };
    const config = readConfig(env);
    const { play } = await import('./play.js');
    process.exitCode = (await play(options, config)) ? 0 : 1;
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
