import { errorMonitor } from 'node:events';
import type { Readable } from 'node:stream';
import type { HeldStream, StreamHold } from './held-source.js';

/** Makes a Node stream produce its data under its lock and release the lock at its end, whichever way it is read. */
export function heldReadable(stream: Readable, hold: StreamHold): HeldStream {
  const { _read, _destroy } = stream as Own;
  const end = endOf(hold);
  Object.assign(stream, {
    _read: (size) => hold.enter(() => Reflect.apply(_read, stream, [size])),
    _destroy: (error, done) => {
      const destroyed = (failure?: Error | null): void => {
        done(failure);
        // A stream that was created with `emitClose: false` emits no 'close'.
        end();
      };
      hold.enter(() => Reflect.apply(_destroy, stream, [error, destroyed]));
    },
  } satisfies Own);
  stream.once('close', end);
  // A stream that was created with `autoDestroy: false` emits no 'close' after it has ended or failed.
  const endUnlessDestroyed = (): void => {
    setImmediate(() => stream.destroyed || end());
  };
  stream.once('end', endUnlessDestroyed);
  stream.once(errorMonitor, endUnlessDestroyed);
  hold.onLoss(destroyerOf(new WeakRef(stream)));
  hold.stopWithReader(stream, { stop: end });
  const stop = (): void => {
    stream.destroy();
  };
  return { value: stream, stop };
}

type Own = Pick<Readable, '_read' | '_destroy'>;

// These two are functions of their own, because a closure that is made beside a use of the stream would keep the stream in memory.

function endOf(hold: StreamHold): () => void {
  return () => hold.end();
}

function destroyerOf(ref: WeakRef<Readable>): (error: unknown) => void {
  return (error) => {
    const stream = ref.deref();
    // If a reader begins after the loss, it gets the error, too. Without any listener for it, the 'error' event would end the process.
    stream?.once('error', () => undefined).destroy(error as Error);
  };
}
