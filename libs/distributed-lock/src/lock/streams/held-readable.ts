import { errorMonitor } from 'node:events';
import type { Readable } from 'node:stream';
import type { HeldStream, StreamHold } from './held-source.js';

/** Lets a stream of Node produce and end in the context of its lock, however it is read. */
export function heldReadable(stream: Readable, hold: StreamHold): HeldStream {
  const { _read, _destroy } = stream as Own;
  const end = endOf(hold);
  Object.assign(stream, {
    _read: (size) => hold.enter(() => Reflect.apply(_read, stream, [size])),
    _destroy: (error, done) => {
      const destroyed = (failure?: Error | null): void => {
        done(failure);
        // A stream that was made with `emitClose: false` emits no 'close'.
        end();
      };
      hold.enter(() => Reflect.apply(_destroy, stream, [error, destroyed]));
    },
  } satisfies Own);
  stream.once('close', end);
  // A stream that was made with `autoDestroy: false` emits no 'close' after its end or its failure.
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

// These two are functions of their own: a closure made beside a use of the stream would keep the stream in memory.

function endOf(hold: StreamHold): () => void {
  return () => hold.end();
}

function destroyerOf(ref: WeakRef<Readable>): (error: unknown) => void {
  return (error) => {
    const stream = ref.deref();
    // A reader that begins after the loss gets the error, too. Without any listener its event would end the process.
    stream?.once('error', () => undefined).destroy(error as Error);
  };
}
