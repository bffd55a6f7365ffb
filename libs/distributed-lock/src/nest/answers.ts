// The response to a request while it is open, on each platform: whether it has begun, when it is over, how to abort it.
// `@Locked` and `@Once` watch the responses to their requests by it.
import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { ExecutionContext } from '@nestjs/common';
import { onEndOf } from '../common/listeners.js';

/** The response to one request until it is complete: an HTTP response or a gRPC call. */
export interface Answer {
  /** True as soon as a part of it was sent, or the handler has announced that it sends the response itself. */
  isBegun(): boolean;
  /** True if the client disconnected before the response was complete. Only meaningful when the response is over. */
  wasLeft(): boolean;
  /**
   * Calls `listener` one time: when the response was sent or the client has disconnected, or at once if that has happened
   * already.
   *
   * @returns a function that removes the listener
   */
  whenOver(listener: () => void): () => void;
  /** Aborts the response so that the client notices that it is incomplete. */
  breakOff(error: unknown): void;
}

/**
 * The open response to a request. `undefined` where there is nothing to watch: GraphQL subscriptions, gateways, and messages of
 * any transport but gRPC.
 */
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

/** The GraphQL context, as applications usually provide it; `reply` is Fastify's. */
interface GraphqlContext {
  readonly req?: { readonly res?: PlatformResponse };
  readonly res?: PlatformResponse;
  readonly reply?: PlatformResponse;
}

/** Node's own response: of HTTP/1, or of the compatibility API of HTTP/2, which has `stream`. */
type RawResponse = ServerResponse & { readonly stream?: ServerHttp2Stream };

/** Express's response is Node's own. Fastify's reply has it as `raw`; its `sent` is also true after `hijack()`. */
type PlatformResponse = RawResponse & { readonly raw?: RawResponse; readonly sent?: boolean };

/** INTERNAL_ERROR of RFC 9113, section 7. Importing `node:http2` for it would cost each process that imports the library some ms. */
const INTERNAL_ERROR = 2;

function httpAnswer(response: PlatformResponse | undefined): Answer | undefined {
  const raw = response?.raw ?? response;
  if (!response || typeof raw?.on !== 'function') return undefined;
  const { httpVersionMajor, socket: connection } = (raw.req as IncomingMessage | undefined) ?? {};
  // On HTTP/2 listen to the stream: the response itself does not say that it is closed, or that its client has disconnected.
  const source: RawResponse | ServerHttp2Stream = raw.stream ?? raw;
  // On HTTP/1 listen to the socket as well: a pipelined response that waits behind earlier ones emits no 'close' when the
  // connection closes.
  const socket = httpVersionMajor === 1 && typeof connection?.on === 'function' ? connection : undefined;
  return {
    isBegun: () => raw.headersSent || response.sent === true,
    // On HTTP/2 ask the stream: Node also ends the stream of a client that has disconnected, and then `writableFinished` is true.
    wasLeft: () => (raw.stream ? raw.stream.aborted : !raw.writableFinished),
    whenOver(listener) {
      const isSent = !raw.stream && raw.writableFinished;
      const isOver = isSent || source.closed || source.destroyed || socket?.destroyed === true;
      // Ignore 'finish' of the socket: the connection may be half-closed while a handler still writes.
      return listenUnless(isOver, listener, [
        [source, ['finish', 'close']],
        [socket, ['close']],
      ]);
    },
    breakOff() {
      // On HTTP/2 send an error code. Without one, the client would take the response for complete.
      if (raw.stream) raw.stream.close(INTERNAL_ERROR);
      else raw.destroy();
    },
  };
}

function grpcAnswer(call: GrpcCall): Answer {
  return {
    // A gRPC call does not say whether something was sent.
    isBegun: () => false,
    wasLeft: () => call.cancelled,
    // Despite its name, `@grpc/grpc-js` emits 'cancelled' at every end of a call, even after it has sent the status itself.
    whenOver: (listener) =>
      listenUnless(call.cancelled || call.destroyed === true, listener, [[call, ['cancelled', 'close']]]),
    // An `RpcException` has the gRPC status in its payload.
    breakOff(error) {
      call.emit('error', (error as { getError?(): unknown }).getError?.() ?? error);
    },
  };
}

/**
 * Calls `listener` at the first of these events, or at once if `isOver`.
 *
 * @returns a function that removes the listener
 */
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

type Ends = readonly [
  emitter: Pick<EventEmitter, 'on' | 'removeListener'> | undefined,
  events: readonly string[],
];

/** A server call of `@grpc/grpc-js`, as Nest passes it to handlers. */
interface GrpcCall extends Pick<EventEmitter, 'on' | 'removeListener'> {
  readonly cancelled: boolean;
  readonly destroyed?: boolean;
  readonly metadata: object;
  getPeer(): string;
  emit(event: 'error', error: unknown): unknown;
}

/** Finds the gRPC call among the arguments of a message; `undefined` for a message of another transport. */
export function grpcCallOf(args: readonly unknown[]): GrpcCall | undefined {
  return args.find((arg): arg is GrpcCall => {
    const { cancelled, getPeer, on } = Object(arg) as Partial<GrpcCall>;
    return typeof cancelled === 'boolean' && typeof getPeer === 'function' && typeof on === 'function';
  });
}
