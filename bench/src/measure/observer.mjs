import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { commandCalls } from './command-calls.mjs';

/** The benchmark's own connection to the server, which reads the server's statistics. */
export class Observer {
  #client;

  /** @param {string} url */
  constructor(url) {
    this.#client = new Redis(url);
  }

  /** Removes every key of the last contestant. */
  async clear() {
    await this.#client.flushall();
  }

  /** @returns {Promise<{ cpuUs: number, calls: Map<string, number> }>} since the server started */
  async read() {
    const info = await this.#client.info('all');
    const seconds = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
    const cpuUs = (seconds('used_cpu_user') + seconds('used_cpu_sys')) * 1e6;
    return { cpuUs, calls: commandCalls(info) };
  }

  /** As `read`, once no more commands arrive. Some libraries do not wait for the reply to a release. */
  async readWhenQuiet() {
    let before = await this.read();
    for (let look = 0; look < 50; look++) {
      await pause(10);
      const now = await this.read();
      if (total(now.calls) === total(before.calls)) return before;
      before = now;
    }
    return before;
  }

  /** @param {(command: string, byScript: boolean) => void} onCommand @returns {Promise<() => void>} ends it */
  async watch(onCommand) {
    const monitor = await this.#client.monitor();
    monitor.on('monitor', (_time, [command], source) => onCommand(command.toLowerCase(), source === 'lua'));
    return () => monitor.disconnect();
  }

  /** @returns {Promise<string>} */
  async version() {
    return /^redis_version:(\S+)/m.exec(await this.#client.info('server'))?.[1] ?? 'unknown';
  }

  close() {
    this.#client.disconnect();
  }
}

/** @param {Map<string, number>} calls */
const total = (calls) => [...calls.values()].reduce((sum, count) => sum + count, 0);
