import type { UnderlyingByteSource } from 'node:stream/web';
import { HeldSource } from './held-source.js';
import type { StreamHold } from './stream-hold.js';

/** A stream of the same chunks, and of the same kind, that is read under the lock. */
export function heldWebStream<T>(
  stream: ReadableStream<T>,
  hold: StreamHold,
): readonly [ReadableStream<T>, HeldSource] {
  const type = isOfBytes(stream) ? 'bytes' : undefined;
  const reader = stream.getReader();
  const source = new HeldSource(
    {
      next: () => reader.read() as Promise<IteratorResult<unknown>>,
      return: (reason) => reader.cancel(reason).then(() => ({ done: true, value: undefined })),
    },
    hold,
  );
  const pull = async (controller: ReadableByteStreamController): Promise<void> => {
    const { done, value } = await source.next();
    if (!done) return controller.enqueue(value as NodeJS.ArrayBufferView);
    controller.close();
    controller.byobRequest?.respond(0);
  };
  const cancel = (reason: unknown): Promise<unknown> => source.return(reason);
  // Nothing is read ahead: whoever holds the lock should work for a reader alone.
  const held = new ReadableStream({ type, pull, cancel } as unknown as UnderlyingByteSource, {
    highWaterMark: 0,
  });
  hold.endWith(held, () => source.stop());
  return [held as unknown as ReadableStream<T>, source];
}

function isOfBytes(stream: ReadableStream<unknown>): boolean {
  try {
    (stream as ReadableStream<Uint8Array>).getReader({ mode: 'byob' }).releaseLock();
    return true;
  } catch {
    return false;
  }
}
