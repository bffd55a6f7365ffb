// node holder.mjs <system> <url>: holds the key until it is killed. Prints a line when it has it.
import { KEY } from '../checks/acquire.mjs';
import { SYSTEMS } from './systems.mjs';

const [name, url] = process.argv.slice(2);
const { system } = await SYSTEMS[name]();
const { run } = await system.open(url);
await run(KEY, () => {
  console.log('holds the key');
  return new Promise(() => {});
});
