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
        // End here, too: a stream that was created with `emitClose: false` emits no 'close'.
        end();
      };
      hold.enter(() => Reflect.apply(_destroy, stream, [error, destroyed]));
    },
  } satisfies Own);
  stream.once('close', end);
  // Ends the hold after 'end' and 'error', too: a stream that was created with `autoDestroy: false` then emits no 'close'.
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

// `endOf` and `destroyerOf` are functions outside of `heldReadable`: a closure inside of it would refer to `stream` and keep it in memory.

function endOf(hold: StreamHold): () => void {
  return () => hold.end();
}

function destroyerOf(ref: WeakRef<Readable>): (error: unknown) => void {
  return (error) => {
    const stream = ref.deref();
    // Destroy with the error, so that a reader gets it even if it begins to read after the loss. The listener that ignores it is needed
    // because an 'error' event that nobody listens to ends the process.
    stream?.once('error', () => undefined).destroy(error as Error);
  };
}
