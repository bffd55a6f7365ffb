import { Redis } from 'ioredis';
import { commandCalls } from './command-calls.mjs';
import { readWhenQuiet } from './read-when-quiet.mjs';

/** The benchmark's own connection to the server, which reads the server's statistics. */
export class RedisObserver {
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

  readWhenQuiet() {
    return readWhenQuiet(() => this.read());
  }

  /** @param {(command: string, byScript: boolean) => void} onCommand @returns {Promise<() => void>} ends it */
  async watch(onCommand) {
    const monitor = await this.#client.monitor();
    monitor.on('monitor', (_time, [command], source) => onCommand(command.toLowerCase(), source === 'lua'));
    return () => monitor.disconnect();
  }

  /** @returns {Promise<string>} */
  async version() {
    const info = await this.#client.info('server');
    const valkey = /^valkey_version:(\S+)/m.exec(info);
    return valkey ? `(Valkey) ${valkey[1]}` : (/^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown');
  }

  close() {
    this.#client.disconnect();
  }
}
