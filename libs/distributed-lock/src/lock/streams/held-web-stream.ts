import type { Readable } from 'node:stream';
import type { UnderlyingByteSource } from 'node:stream/web';
import { heldReadable } from './held-readable.js';
import { HeldSource } from './held-source.js';
import type { HeldStream, StreamHold } from './stream-hold.js';

/** A stream of the same chunks and the same type that is read under the lock. */
export function heldWebStream<T>(stream: ReadableStream<T>, hold: StreamHold): HeldStream<ReadableStream<T>> {
  const type = isOfBytes(stream) ? 'bytes' : undefined;
  const reader = stream.getReader();
  const steps = {
    next: () => reader.read() as Promise<IteratorResult<unknown>>,
    return: (reason: unknown) =>
      reader.cancel(reason).then(() => ({ done: true, value: undefined }) as const),
  };
  const source = new HeldSource(steps, hold);
  const pull = async (controller: ReadableByteStreamController): Promise<void> => {
    const { done, value } = await source.next();
    if (!done) return controller.enqueue(value as NodeJS.ArrayBufferView);
    controller.close();
    controller.byobRequest?.respond(0);
  };
  const cancel = (reason: unknown): Promise<unknown> => source.return(reason);
  // Reads nothing ahead, so that the lock is held for what the reader asks for.
  const held = new ReadableStream({ type, pull, cancel } as unknown as UnderlyingByteSource, {
    highWaterMark: 0,
  });
  hold.stopWithReader(held, source);
  return { value: held as unknown as ReadableStream<T>, stop: () => source.stop() };
}

/** A web `Response`. The `Response` of node-fetch has a stream of Node as its body, and reads it itself. */
export function heldResponse(response: Response, hold: StreamHold): HeldStream {
  const body = response.body as ReadableStream<Uint8Array> | Readable;
  if (!('getReader' in body)) return { ...heldReadable(body, hold), value: response };
  const held = heldWebStream(body, hold);
  return { ...held, value: withBody(response, held.value) };
}

function isOfBytes(stream: ReadableStream<unknown>): boolean {
  try {
    (stream as ReadableStream<Uint8Array>).getReader({ mode: 'byob' }).releaseLock();
    return true;
  } catch {
    return false;
  }
}

/** The same response with another body, which its clones have, too. */
function withBody(original: Response, body: ReadableStream | null): Response {
  const held = new Response(body, original);
  const clone = held.clone.bind(held);
  const { type, url, redirected } = original;
  return Object.defineProperties(held, {
    type: { value: type },
    url: { value: url },
    redirected: { value: redirected },
    clone: { value: () => withBody(original, clone().body) },
  });
}
