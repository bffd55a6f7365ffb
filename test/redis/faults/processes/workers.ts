import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawnGuarded, type GuardedChild } from '#processes';
import { until } from '#until';

const SCRIPT = fileURLToPath(new URL('worker.mjs', import.meta.url));

export interface WorkerOptions {
  readonly role: 'close' | 'exit';
  readonly url: string;
  readonly key: string;
}

export interface Told {
  readonly what: string;
  readonly [detail: string]: unknown;
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

  /** Resolves with what it tells under that name, as soon as it does. */
  async hear(what: string): Promise<Told> {
    await until(() => {
      if (this.errors) throw new Error(this.errors);
      return this.has(what);
    });
    return this.told.find((told) => told.what === what) as Told;
  }

  has(what: string): boolean {
    return this.told.some((told) => told.what === what);
  }

  signal(signal: NodeJS.Signals): void {
    this.process.child.kill(signal);
  }

  async exited(): Promise<{ code: number | null; errors: string }> {
    const { code } = await this.process.exited;
    return { code, errors: this.errors };
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.process.exited;
  }
}
