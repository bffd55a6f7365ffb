import { AbstractConnector, type RedisOptions } from 'ioredis';
import type { Socket } from 'node:net';
import type { Line } from './line.js';
import { SimulatedSocket } from './simulated-socket.js';

/** Options for `redisStore` whose connections are lines of a simulation. */
export function simulatedTarget(host: string, newLine: () => Line): RedisOptions {
  class SimulatedConnector extends AbstractConnector {
    constructor({ disconnectTimeout }: RedisOptions) {
      super(disconnectTimeout ?? 0);
    }

    override connect(): Promise<Socket> {
      this.connecting = true;
      return new Promise((resolve, reject) => {
        process.nextTick(() => {
          if (!this.connecting) return reject(new Error('Connection is closed.'));
          const stream = new SimulatedSocket(newLine()) as unknown as Socket;
          this.stream = stream;
          stream.once('error', (error) => (this.firstError = error));
          resolve(stream);
        });
      });
    }
  }
  return { host, Connector: SimulatedConnector as unknown as NonNullable<RedisOptions['Connector']> };
}
