import { connect } from 'node:net';

/** @type {import('./index.d.mts').isListening} */
export function isListening(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    }).on('error', () => resolve(false));
  });
}
