import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnGuarded, type GuardedChild } from '#processes';
import { until } from '#until';

const SCRIPT = fileURLToPath(new URL('worker.mjs', import.meta.url));
const PATIENCE_MS = 60_000;

export interface WorkerOptions {
  readonly role: 'storm' | 'permits' | 'transfers' | 'hold';
  readonly url: string;
  readonly key: string;
  /** One caller each; what they say depends on the role. */
  readonly callers: readonly (string | number)[];
  /** All processes together. */
  readonly turns?: number;
  readonly permits?: number;
  readonly watchdogTimeoutMs?: number;
}

interface Told {
  readonly what: string;
  /** Turns of each caller. */
  readonly served?: readonly number[];
}

/** A process with the built package in it, and what it has told so far. */
export class Worker {
  readonly told: Told[] = [];
  private errors = '';
  private readonly process: GuardedChild;

  constructor(options: WorkerOptions) {
    this.process = spawnGuarded(process.execPath, [SCRIPT, JSON.stringify(options)], {
      env: process.env,
      stdio: 'pipe',
    });
    const { stdout, stderr } = this.process.child;
    if (stdout) createInterface(stdout).on('line', (line) => this.told.push(JSON.parse(line) as Told));
    stderr?.on('data', (text: Buffer) => (this.errors += text.toString()));
  }

  /** What it has told under that name, as soon as it has. */
  async hear(what: string): Promise<Told> {
    const find = () => this.told.find((told) => told.what === what);
    await until(() => {
      if (this.errors) throw new Error(this.errors);
      return find() !== undefined;
    }, PATIENCE_MS);
    return find() as Told;
  }

  get violations(): number {
    return this.told.filter(({ what }) => what === 'violation').length;
  }

  async kill(): Promise<void> {
    this.process.child.kill('SIGKILL');
    await this.process.exited;
  }
}
