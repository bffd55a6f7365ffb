import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';
import { spawnGuarded } from '#processes';
import { sleptFile } from '../folders.mjs';
import { now } from '../now.mjs';

const SCRIPT = fileURLToPath(new URL('../app/app.mjs', import.meta.url));
/** Grace, two commands, a lease that an unanswered end may take, and reserves. */
const CLOSE_MS = 8000;

/** One process of the service under test, as its operator sees it. */
export class AppProcess {
  isRunning = true;
  #process;
  #errors = '';
  #record;
  #file;
  #sleptMs = 0;

  /** @param {{ app: string, file: string }} settings @param {(type: string, details?: object) => void} record @param {NodeJS.ProcessEnv} [env] */
  constructor(settings, record, env = process.env) {
    this.name = settings.app;
    this.#file = settings.file;
    this.#record = record;
    const args = ['--expose-gc', SCRIPT, JSON.stringify(settings)];
    this.#process = spawnGuarded(process.execPath, args, { env, stdio: 'pipe' });
    const { stderr, stdout } = this.#process.child;
    stderr.on('data', (text) => (this.#errors += text));
    this.started = Promise.race([once(stdout, 'data'), this.#process.exited]);
    void this.#process.exited.then(({ code, signal }) => this.#onExit(code, signal));
  }

  /** @param {NodeJS.Signals} signal */
  signal(signal) {
    this.#process.child.kill(signal);
  }

  /** Freezes it for so long. */
  async freeze(ms) {
    this.signal('SIGSTOP');
    await pause(ms);
    this.signal('SIGCONT');
  }

  /** Suspends its machine for so long: it is frozen, and its monotonic clock does not know of that. */
  async suspend(ms) {
    this.signal('SIGSTOP');
    const from = now();
    await pause(ms);
    this.#sleptMs += now() - from;
    writeFileSync(sleptFile(this.#file), String(this.#sleptMs));
    this.signal('SIGCONT');
  }

  async kill() {
    this.isRunning = false;
    this.signal('SIGKILL');
    await this.#process.exited;
  }

  /** Asks it to close; kills what does not end by itself, and puts that on record. */
  async close() {
    if (!this.isRunning) return;
    this.isRunning = false;
    this.#record('closing', { app: this.name });
    this.signal('SIGTERM');
    const waited = new AbortController();
    const hasEnded = await Promise.race([
      this.#process.exited.then(() => true),
      pause(CLOSE_MS, false, { signal: waited.signal }).catch(() => false),
    ]);
    waited.abort();
    if (!hasEnded) await this.kill();
  }

  #onExit(code, signal) {
    this.#record('exited', { app: this.name, code, signal, expected: !this.isRunning, errors: this.#errors });
    this.isRunning = false;
  }
}
