import type { Redis } from 'ioredis';
import { inBackground } from '../../../async-context/in-background.js';

/**
 * Asks the server of a silent connection on a second one, which is closed again.
 *
 * @param onAnswer the server answers there
 * @returns closes the second connection
 */
export function askBeside(silent: Redis, onAnswer: () => void): () => void {
  const beside = silent.duplicate({ retryStrategy: null, enableReadyCheck: false, failoverDetector: false });
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
