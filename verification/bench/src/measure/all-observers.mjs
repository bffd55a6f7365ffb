import { readWhenQuiet } from './read-when-quiet.mjs';

/** The servers of a cluster as one: what clients send is the sum of what each server receives. */
export class AllObservers {
  #observers;

  /** @param {readonly (import('../stores/store.d.mts').Observer & { watch?: Function, close(): void })[]} observers */
  constructor(observers) {
    this.#observers = observers;
  }

  async clear() {
    for (const observer of this.#observers) await observer.clear();
  }

  /** @returns {Promise<import('../stores/store.d.mts').Reading>} */
  async read() {
    const readings = await Promise.all(this.#observers.map((observer) => observer.read()));
    const calls = new Map();
    for (const [name, count] of readings.flatMap((reading) => [...reading.calls])) {
      calls.set(name, (calls.get(name) ?? 0) + count);
    }
    return { cpuUs: readings.reduce((sum, { cpuUs }) => sum + cpuUs, 0), calls };
  }

  readWhenQuiet() {
    return readWhenQuiet(() => this.read());
  }

  /** As RedisObserver's. @param {(command: string, byScript: boolean) => void} onCommand @returns {Promise<() => void>} ends it */
  async watch(onCommand) {
    const ends = await Promise.all(this.#observers.map((observer) => observer.watch(onCommand)));
    return () => ends.forEach((end) => end());
  }

  /** @returns {Promise<string>} */
  version() {
    return this.#observers[0].version();
  }

  close() {
    for (const observer of this.#observers) observer.close();
  }
}
