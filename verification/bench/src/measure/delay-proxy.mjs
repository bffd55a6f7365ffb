import { connect, createServer } from 'node:net';

/**
 * Imitates the network between a process and its Redis. Bytes of a client arrive `delayMs` later, in order. Replies pass
 * at once, so a round trip takes `delayMs` longer. Timers of Node make that 1 to 2 ms where 1 is asked for.
 *
 * @param {string} url of the server @param {number} delayMs
 * @returns {Promise<{ url: string, close: () => void }>}
 */
export async function startDelayProxy(url, delayMs) {
  const { hostname, port } = new URL(url);
  const sockets = new Set();
  const proxy = createServer({ noDelay: true }, (client) => {
    const server = connect({ host: hostname, port: Number(port), noDelay: true });
    client.on('data', (chunk) => setTimeout(() => server.writable && server.write(chunk), delayMs));
    server.on('data', (chunk) => client.writable && client.write(chunk));
    const end = () => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on('error', end).on('close', end);
    }
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    url: `redis://127.0.0.1:${proxy.address().port}`,
    close() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
