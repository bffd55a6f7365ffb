import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** A contestant that hangs must not hang the run. */
const MAX_TASK_MS = 60_000;

/** A process that speaks JSON lines: see src/worker/main.mjs. It ends with this one, as its pipe closes then. */
export class WorkerProcess {
  #child;
  #answers = [];
  #errors = '';

  /** @param {readonly string[]} command */
  constructor([command, ...args]) {
    // Libraries do more for people who develop. The benchmark measures them as in production.
    const env = { ...process.env, NODE_ENV: 'production' };
    this.#child = spawn(command, args, { stdio: 'pipe', env });
    this.#child.stdin.on('error', () => {});
    this.#child.stderr.on('data', (text) => (this.#errors = (this.#errors + text).slice(-2000)));
    // Peers may print, too.
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      if (line.startsWith('{')) this.#answers.shift()?.resolve(JSON.parse(line));
    });
    this.#child.once('error', (error) => this.#fail(error.message));
    this.#child.once('exit', (code, signal) => this.#fail(`it ended (${code ?? signal})`));
  }

  /**
   * @param {string} task @param {object} [details] @returns {Promise<any>}
   * @throws Error when it ends before it answers, answers with an error, or not for a minute
   */
  async ask(task, details) {
    const late = setTimeout(() => this.kill(), MAX_TASK_MS);
    const answer = await new Promise((resolve, reject) => {
      this.#answers.push({ resolve, reject });
      this.#child.stdin.write(`${JSON.stringify({ task, ...details })}\n`);
    }).finally(() => clearTimeout(late));
    if (answer.error) throw new Error(answer.error);
    return answer;
  }

  kill() {
    this.#child.kill('SIGKILL');
  }

  #fail(reason) {
    for (const { reject } of this.#answers.splice(0)) reject(new Error(`${reason}\n${this.#errors}`));
  }
}

/**
 * Fresh processes of one contestant, opened. They are killed when `use` has settled.
 *
 * @template T
 * @param {{ command: readonly string[], count: number, url: string, options?: object }} what
 * @param {(workers: WorkerProcess[]) => Promise<T>} use @returns {Promise<T>}
 */
export async function withWorkers({ command, count, url, options }, use) {
  const workers = Array.from({ length: count }, () => new WorkerProcess(command));
  try {
    await Promise.all(workers.map((worker) => worker.ask('open', { url, options })));
    return await use(workers);
  } finally {
    for (const worker of workers) worker.kill();
  }
}
