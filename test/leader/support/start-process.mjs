import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnGuarded } from '#processes';
import { until } from '#until';

const PROGRAM = fileURLToPath(new URL('instance.mjs', import.meta.url));

/**
 * Starts an instance in a process of its own, and waits until it stands for election.
 *
 * @type {import('./start-process.d.mts').startProcess}
 */
export async function startProcess(options) {
  const { child, exited } = spawnGuarded(process.execPath, [PROGRAM, JSON.stringify(options)], {
    stdio: 'pipe',
  });
  const said = [];
  let complaints = '';
  child.stderr.on('data', (text) => (complaints += text));
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line.startsWith('{')) said.push(JSON.parse(line));
    else complaints += `${line}\n`;
  });
  const has = (what) => said.find((it) => it.what === what);
  void exited.then(() => said.push({ what: 'exited' }));
  await until(() => has('standing') ?? has('exited'));
  if (!has('standing')) throw new Error(`The instance has ended: ${complaints}`);
  return {
    said,
    exited,
    when: async (what) => {
      await until(() => has(what) !== undefined);
      return has(what);
    },
    send: (signal) => void child.kill(signal),
    stop: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
