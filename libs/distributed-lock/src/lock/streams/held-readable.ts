import type { Readable } from 'node:stream';
import type { StreamHold } from './stream-hold.js';

type Own = Pick<Readable, '_read' | '_destroy'>;

/**
 * Lets a stream of Node produce and end in the context of its lock, however it is read.
 *
 * @returns ends it for a reader that does not read on
 */
export function holdReadable(stream: Readable, hold: StreamHold): () => void {
  const { _read, _destroy } = stream as Own;
  const end = endOf(hold);
  Object.assign(stream, {
    _read: (size) => hold.enter(() => Reflect.apply(_read, stream, [size])),
    _destroy: (error, done) => {
      const destroyed = (failure?: Error | null): void => {
        done(failure);
        // A stream that was made with `emitClose: false` never tells that it has closed.
        end();
      };
      hold.enter(() => Reflect.apply(_destroy, stream, [error, destroyed]));
    },
  } satisfies Own);
  stream.once('close', end);
  // One that does not destroy itself when it has ended does not close, either.
  stream.once('end', () => setImmediate(() => stream.destroyed || end()));
  hold.onLoss(destroyerOf(new WeakRef(stream)));
  hold.endWith(stream, end);
  return () => {
    stream.destroy();
  };
}

// Functions of their own: what is made beside a use of the stream would keep it.

function endOf(hold: StreamHold): () => void {
  return () => hold.end();
}

function destroyerOf(ref: WeakRef<Readable>): (error: unknown) => void {
  return (error) => {
    const stream = ref.deref();
    // An error that nobody listens for would end the process.
    stream?.destroy(stream.listenerCount('error') > 0 ? (error as Error) : undefined);
  };
}
