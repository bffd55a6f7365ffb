import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

/**
 * A connection to the witness. Requests are answered in order.
 *
 * @param {number} port @returns {Promise<{ ask(what: string, request: object): Promise<any>, close(): void }>}
 */
export async function connectToWitness(port) {
  const socket = connect(port, '127.0.0.1').setNoDelay(true);
  await once(socket, 'connect');
  const waiting = new Map();
  let count = 0;
  createInterface(socket).on('line', (line) => {
    const { id, ...answer } = JSON.parse(line);
    waiting.get(id)(answer);
    waiting.delete(id);
  });
  return {
    ask(what, request) {
      const id = ++count;
      const answered = new Promise((resolve) => waiting.set(id, resolve));
      socket.write(`${JSON.stringify({ id, what, ...request })}\n`);
      return answered;
    },
    close: () => socket.end(),
  };
}
