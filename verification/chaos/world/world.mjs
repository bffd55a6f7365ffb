import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawnGuarded } from '#processes';
import { until } from '#until';
import { connectToWitness } from '../witness/ask-witness.mjs';
import { AppProcess } from './app-process.mjs';
import { keyNames } from './key-names.mjs';
import { openTopology } from './topologies.mjs';

const WITNESS = fileURLToPath(new URL('../witness/witness.mjs', import.meta.url));

/** Everything that a trial consists of: servers, the witness, and the processes of the service. */
export class World {
  apps = [];
  #count = 0;
  #files = [];

  /** @param {any} parts */
  constructor({ folder, kind, seed, random, record, store, witness, witnessPort, witnessProcess, traffic }) {
    Object.assign(this, { folder, kind, seed, random, record, store, witness, traffic });
    this.witnessPort = witnessPort;
    this.witnessProcess = witnessProcess;
    this.keys = keyNames({ count: traffic.keys, workload: traffic.workload, seed });
  }

  /** @param {{ folder: string, storeName: import('../index.d.mts').StoreName, kind: any, seed: string, random: any, record: any, traffic: any }} trial */
  static async open(trial) {
    const store = await openTopology(trial.storeName, trial.kind);
    const args = [WITNESS, join(trial.folder, 'witness.jsonl')];
    const witnessProcess = spawnGuarded(process.execPath, args, { env: process.env, stdio: 'pipe' });
    const [line] = await once(witnessProcess.child.stdout, 'data');
    const witness = await connectToWitness(Number(line));
    const world = new World({ ...trial, store, witness, witnessProcess, witnessPort: Number(line) });
    await Promise.all(Array.from({ length: trial.traffic.apps }, () => world.startApp()));
    return world;
  }

  get files() {
    return [...this.#files, join(this.folder, 'witness.jsonl')];
  }

  /** Another process of the service; with its own way to the server where the topology has one. */
  async startApp() {
    const index = this.#count++;
    const name = `app${index + 1}`;
    const file = join(this.folder, `${name}.jsonl`);
    const { keys, seed, traffic, witnessPort } = this;
    const target = await this.store.targetFor(name);
    const env = { ...process.env, ...this.kind.env };
    const app = new AppProcess(
      { app: name, index, file, target, keys, seed, traffic, witnessPort },
      this.record,
      env,
    );
    this.apps.push(app);
    this.#files.push(file);
    await app.started;
    return app;
  }

  get running() {
    return this.apps.filter((app) => app.isRunning);
  }

  /** A process that is inside now: of any key, chosen at random. */
  async holder() {
    const key = this.random.pick(this.keys);
    let found;
    await until(async () => {
      const { app } = await this.witness.ask('inside', { key });
      found = this.victims.find(({ name }) => name === app);
      return found !== undefined;
    }, 5000);
    return found;
  }

  /** The processes that may be hurt: all, or in a soak the last one, so that the others live through it. */
  get victims() {
    return this.traffic.sparesApps ? this.running.slice(this.traffic.sparesApps) : this.running;
  }

  /** Ends the service; resolves when every process has gone, by itself or not. */
  async closeApps() {
    await Promise.all(this.apps.map((app) => app.close()));
  }

  async stop() {
    this.witness.close();
    await Promise.allSettled(this.apps.map((app) => app.kill()));
    this.witnessProcess.child.kill('SIGKILL');
    await this.witnessProcess.exited;
    await this.store.stop();
  }
}
