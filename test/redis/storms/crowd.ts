import { startRedisServer, type RedisServer } from '#redis-server';
import { Redis } from 'ioredis';
import { Worker, type WorkerOptions } from './workers.js';

type Role = Omit<WorkerOptions, 'url' | 'key'>;

/** Processes over one server of their own. */
export class Crowd {
  readonly key = 'crowd';
  readonly workers: Worker[] = [];

  private constructor(
    private readonly server: RedisServer,
    readonly redis: Redis,
  ) {}

  static async open(): Promise<Crowd> {
    const server = await startRedisServer();
    return new Crowd(server, new Redis(server.url));
  }

  start(role: Role): Worker {
    const worker = new Worker({ ...role, url: this.server.url, key: this.key });
    this.workers.push(worker);
    return worker;
  }

  /** So many processes take their turns at the same time. @returns how many each caller got, by process */
  async run(count: number, role: Role): Promise<readonly (readonly number[])[]> {
    const workers = Array.from({ length: count }, () => this.start(role));
    await Promise.all(workers.map((worker) => worker.hear('ready')));
    await this.redis.set(`${this.key}:go`, '1');
    const done = await Promise.all(workers.map((worker) => worker.hear('done')));
    return done.map(({ served = [] }) => served);
  }

  /** What is left of locks, apart from their tokens. */
  async remains(): Promise<string[]> {
    const own = new RegExp(`^${this.key}:(go|done|inside|several|account)|^nest_lock_token`);
    return (await this.redis.keys('*')).filter((name) => !own.test(name));
  }

  get violations(): number {
    return this.workers.reduce((sum, worker) => sum + worker.violations, 0);
  }

  async close(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.kill()));
    await this.redis.quit();
    await this.server.stop();
  }
}
