import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { ExecutionContext } from '@nestjs/common';
import { onEndOf, type Emitter } from '../common/listeners.js';

/** The response to one request while it is open: a response of HTTP, or a call of gRPC. */
export interface Answer {
  /** True as soon as a part of it was sent, or its handler has announced that it sends the answer itself. */
  isBegun(): boolean;
  /** True if the client has gone before the answer was complete. Meaningless before the answer is over. */
  wasLeft(): boolean;
  /**
   * Calls `listener` once, when the answer was sent or the client has gone. Calls it at once if that has happened already.
   *
   * @returns stops listening
   */
  whenOver(listener: () => void): () => void;
  /** Ends the answer so that the client sees that it is not complete. */
  breakOff(error: unknown): void;
}

/** The open answer to a request; `undefined` for GraphQL subscriptions, gateways and messages of other transports than gRPC. */
export function answerTo(context: ExecutionContext): Answer | undefined {
  switch (context.getType<string>()) {
    case 'http':
      return httpAnswer(context.switchToHttp().getResponse<PlatformResponse>());
    case 'graphql': {
      const { req, res, reply } = context.getArgByIndex<GraphqlContext | undefined>(2) ?? {};
      return httpAnswer(res ?? req?.res ?? reply);
    }
    case 'rpc': {
      const call = grpcCallOf(context.getArgs());
      return call && grpcAnswer(call);
    }
    default:
      return undefined;
  }
}

/** The context that applications usually give to GraphQL. Integrations of Fastify have `reply`. */
interface GraphqlContext {
  readonly req?: { readonly res?: PlatformResponse };
  readonly res?: PlatformResponse;
  readonly reply?: PlatformResponse;
}

/** A response of Node, of HTTP/1 or of the compatibility API of HTTP/2. */
type RawResponse = ServerResponse & { readonly stream?: ServerHttp2Stream };

/** The response of Express, or the reply of Fastify with the response inside. `sent` is also true after Fastify's `hijack()`. */
type PlatformResponse = RawResponse & { readonly raw?: RawResponse; readonly sent?: boolean };

/** INTERNAL_ERROR of RFC 9113, section 7. Importing `node:http2` for it would cost each process that imports the library some ms. */
const INTERNAL_ERROR = 2;

function httpAnswer(response: PlatformResponse | undefined): Answer | undefined {
  const raw = response?.raw ?? response;
  if (!response || typeof raw?.on !== 'function') return undefined;
  const { httpVersionMajor, socket: connection } = (raw.req as IncomingMessage | undefined) ?? {};
  // On HTTP/2 watch the stream, because the response says neither that it is closed nor that its client has gone.
  const source: RawResponse | ServerHttp2Stream = raw.stream ?? raw;
  // A pipelined answer that waits for earlier ones emits no 'close' when its connection closes.
  const socket = httpVersionMajor === 1 && typeof connection?.on === 'function' ? connection : undefined;
  return {
    isBegun: () => raw.headersSent || response.sent === true,
    // `writableFinished` is also true on HTTP/2 after Node has ended the stream of a client that has gone.
    wasLeft: () => (raw.stream ? raw.stream.aborted : !raw.writableFinished),
    whenOver(listener) {
      const isSent = !raw.stream && raw.writableFinished;
      const isOver = isSent || source.closed || source.destroyed || socket?.destroyed === true;
      // The 'finish' of a socket does not count: a socket may be half-closed while a handler still writes.
      return listenUnless(isOver, listener, [
        [source, ['finish', 'close']],
        [socket, ['close']],
      ]);
    },
    breakOff() {
      // If a stream is destroyed without an error code, the client takes the answer for complete.
      if (raw.stream) raw.stream.close(INTERNAL_ERROR);
      else raw.destroy();
    },
  };
}

function grpcAnswer(call: GrpcCall): Answer {
  return {
    // A call of gRPC has no member that says so.
    isBegun: () => false,
    wasLeft: () => call.cancelled,
    // `@grpc/grpc-js` emits 'cancelled' at every end of a call, even if it has sent the status itself.
    whenOver: (listener) =>
      listenUnless(call.cancelled || call.destroyed === true, listener, [[call, ['cancelled', 'close']]]),
    breakOff: (error) => breakOffCall(call, error),
  };
}

/** Calls `listener` at once if `isOver`, otherwise at the first event of one of the emitters. @returns stops listening */
function listenUnless(isOver: boolean, listener: () => void, ends: readonly Ends[]): () => void {
  const onEnd = (): void => {
    stop();
    listener();
  };
  const stops = ends.map(([emitter, events]) => !isOver && emitter && onEndOf(emitter, events, onEnd));
  const stop = (): void => stops.forEach((stopOne) => stopOne && stopOne());
  if (isOver) listener();
  return stop;
}

type Ends = readonly [emitter: Emitter | undefined, events: readonly string[]];

/** A call of `@grpc/grpc-js` on its server, as Nest gives it to handlers. */
export interface GrpcCall extends Emitter {
  readonly cancelled: boolean;
  readonly destroyed?: boolean;
  readonly metadata: object;
  getPeer(): string;
  emit(event: 'error', error: unknown): unknown;
}

/** The call among the arguments of a message; `undefined` for a message of another transport. */
export function grpcCallOf(args: readonly unknown[]): GrpcCall | undefined {
  return args.find((arg): arg is GrpcCall => {
    const { cancelled, getPeer, on } = Object(arg) as Partial<GrpcCall>;
    return typeof cancelled === 'boolean' && typeof getPeer === 'function' && typeof on === 'function';
  });
}

/** Ends a call with an error. The payload of an `RpcException` has the status. */
export function breakOffCall(call: GrpcCall, error: unknown): void {
  call.emit('error', (error as { getError?(): unknown }).getError?.() ?? error);
}
