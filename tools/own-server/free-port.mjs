import { createServer } from 'node:net';
import { randomInt } from 'node:crypto';

/**
 * Below the range from which systems take the ports of outgoing connections: one of those could otherwise take the
 * server's port while it restarts. Tests in parallel seldom meet, as each starts at random.
 */
const FIRST_PORT = 17_000;
const PORTS = 10_000;

/** @returns {Promise<number>} a port that nobody listened on a moment ago */
export async function freePort() {
  for (;;) {
    const port = FIRST_PORT + randomInt(PORTS);
    if (await isFree(port)) return port;
  }
}

/** @param {number} port @returns {Promise<boolean>} */
function isFree(port) {
  return new Promise((resolve) => {
    const probe = createServer().once('error', () => resolve(false));
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
