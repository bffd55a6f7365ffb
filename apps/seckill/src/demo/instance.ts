import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { spawnGuarded } from '#processes';

/** One process of the app. */
export interface Instance {
  readonly url: string;
  readonly pid: number;
  signal(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void;
  /** Resolves when it has ended. */
  readonly exited: Promise<unknown>;
  /** Lets it close itself. */
  stop(): Promise<void>;
}

/**
 * Starts `node <program>` on a free port; resolves when it listens.
 *
 * @throws Error with its output when it ends before
 */
export async function startInstance(program: string, env: Record<string, string>): Promise<Instance> {
  const { child, exited } = spawnGuarded(process.execPath, [program], {
    env: { ...process.env, PORT: '0', ...env },
    stdio: 'pipe',
  });
  let output = '';
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-4096)));
  }
  // `exited` may come before the last of its output.
  const closed = once(child, 'close').then(() => undefined);
  const url = await Promise.race([addressIn(child.stdout!), closed]);
  if (url === undefined) throw new Error(`${program} ended before it listened:\n${output}`);
  return {
    url,
    pid: child.pid!,
    signal: (signal) => child.kill(signal),
    exited,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** Listens to each line. `once` in a loop would miss a line that comes in one piece with an earlier one. */
function addressIn(stdout: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve) => {
    createInterface({ input: stdout }).on('line', (line) => {
      const url = /listens on (\S+)/.exec(line)?.[1];
      if (url !== undefined) resolve(url);
    });
  });
}
