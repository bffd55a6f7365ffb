import type { Readable } from 'node:stream';
import type { Clock } from '../../../time/clock.js';
import { afterReading } from '../../../time/turns.js';

/**
 * Runs `task` once `stream` has brought nothing for `ms`. Several round trips may follow each other meanwhile, and each of
 * them may take that long.
 *
 * @returns cancels it
 */
export function afterSilence(clock: Clock, stream: Readable, ms: number, task: () => void): () => void {
  let cancel = (): void => undefined;
  const end = (): void => {
    cancel();
    stream.removeListener('data', wait);
  };
  function wait(): void {
    cancel();
    cancel = afterReading(clock, ms, () => {
      end();
      task();
    });
  }
  wait();
  stream.on('data', wait);
  return end;
}
