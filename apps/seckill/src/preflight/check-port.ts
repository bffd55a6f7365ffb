import { once } from 'node:events';
import { createServer } from 'node:net';
import { reasonOf } from './reason-of.js';

/** @throws Error with the remedy, when the app could not listen there */
export async function checkPort(host: string, port: number): Promise<void> {
  const server = createServer();
  try {
    server.listen({ port, host, exclusive: true });
    await once(server, 'listening');
  } catch (error) {
    throw new Error(adviceOn(error, host, port), { cause: error });
  } finally {
    if (server.listening) {
      server.close();
      await once(server, 'close');
    }
  }
}

function adviceOn(error: unknown, host: string, port: number): string {
  const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
  return taken
    ? `Port ${port} on ${host} is taken: another program listens there, maybe a flash sale that runs already.
Stop it, or let the app take any port that is free: PORT=0 npm start.`
    : `The app cannot listen on ${host}, port ${port}: ${reasonOf(error)}.
Choose others: HOST=127.0.0.1 PORT=0 npm start takes any port that is free.`;
}
