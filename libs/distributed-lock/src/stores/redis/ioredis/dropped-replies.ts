import type { Cluster, Redis } from 'ioredis';

/** The connector by which a client of ioredis finds its master, over connections to the Sentinels. */
interface SentinelConnector {
  connectToSentinel?(...args: unknown[]): Redis;
}

/**
 * Handles the replies that ioredis itself drops: to `ASKING` before a command whose slot migrates, and to the `SUBSCRIBE`
 * of a Sentinel connection that it opens again. Node ends the process when one of them is an error, "Connection is
 * closed." for example. Connections to Sentinels print their errors as well, unless somebody listens.
 */
export function handleDroppedReplies(client: Redis | Cluster): void {
  if (client.isCluster) {
    (client as Cluster).on('+node', handleAllReplies);
    return;
  }
  const { connector } = client as unknown as { readonly connector?: SentinelConnector };
  const connect = connector?.connectToSentinel?.bind(connector);
  if (!connector || !connect) return;
  connector.connectToSentinel = (...args) => {
    const sentinel = connect(...args);
    sentinel.on('error', () => undefined);
    handleAllReplies(sentinel);
    return sentinel;
  };
}

function handleAllReplies(node: Redis): void {
  const send = node.sendCommand.bind(node);
  node.sendCommand = (...args) => {
    const reply = send(...args);
    Promise.resolve(reply).catch(() => undefined);
    return reply;
  };
}
