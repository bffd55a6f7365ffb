import type { Redis } from 'ioredis';
import { inBackground } from '../../../async-context/in-background.js';
import type { Arguments, RedisNode } from '../redis.client.js';

/** One connection of ioredis to one server. */
export class IoredisNode implements RedisNode {
  readonly address: string;

  constructor(
    private readonly connection: Redis,
    database = 0,
  ) {
    const { path, host, port } = connection.options;
    this.address = path ?? `${host}:${port}/${database}`;
  }

  get isReady(): boolean {
    return this.connection.status === 'ready';
  }

  call(command: string, args: Arguments): Promise<unknown> {
    return this.connection.call(command, ...args);
  }

  askBeside(onAnswer: () => void): () => void {
    const beside = this.connection.duplicate({
      retryStrategy: null,
      enableReadyCheck: false,
      failoverDetector: false,
    });
    const close = (): void => {
      beside.removeListener('ready', onReady);
      beside.disconnect();
      beside.stream?.destroy();
    };
    function onReady(): void {
      close();
      onAnswer();
    }
    beside.on('error', () => undefined);
    beside.on('ready', onReady);
    inBackground(beside.connect(), () => undefined);
    return close;
  }

  drop(): void {
    this.connection.stream?.destroy();
  }
}
