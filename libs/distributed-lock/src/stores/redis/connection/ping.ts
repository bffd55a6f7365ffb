import type { Cluster } from 'ioredis';
import { RedisCommand, type Client } from './redis.command.js';

/** Each node of a cluster has a connection of its own, which `socketTimeout` ends when it does not reply. */
export class Ping extends RedisCommand<undefined> {
  readonly key = undefined;
  readonly priority = 'renew';

  send(client: Client): Promise<unknown> {
    if (!client.isCluster) return client.ping();
    const open = (client as Cluster).nodes('master').filter(({ status }) => status === 'ready');
    return Promise.allSettled(open.map((node) => node.ping()));
  }

  read(): undefined {
    return undefined;
  }
}
