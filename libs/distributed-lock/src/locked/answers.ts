import type { ExecutionContext } from '@nestjs/common';
import { onEndOf, type Emitter } from '../async-context/shared-listener.js';

/** The open answer to a request: a response of HTTP, or a call of gRPC. */
export interface Answer {
  /** True once something of it was sent, or its handler has announced that it sends it. */
  readonly isBegun: boolean;
  /** True if the client has gone before the answer was complete. Says nothing before the answer is over. */
  readonly wasLeft: boolean;
  /**
   * Calls `listener` once: when the answer was sent or the client has gone, at once if that is so already.
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
      return HttpAnswer.of(context.switchToHttp().getResponse<PlatformResponse>());
    case 'graphql': {
      const { req, res, reply } = context.getArgByIndex<GraphqlContext | undefined>(2) ?? {};
      return HttpAnswer.of(res ?? req?.res ?? reply);
    }
    case 'rpc': {
      const call = grpcCallOf(context.getArgs());
      return call && new GrpcAnswer(call);
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

const ENDS = ['finish', 'close'];
/** INTERNAL_ERROR of RFC 9113, section 7. Importing `node:http2` for it would cost each process that imports the library some ms. */
const INTERNAL_ERROR = 2;

/** A response of Node, of HTTP/1 or of the compatibility API of HTTP/2. */
class HttpAnswer implements Answer {
  /** On HTTP/2 the stream, because the response there says neither that it is closed nor that its client has gone. */
  private readonly source: RawResponse | Http2Stream;
  private readonly socket: Http1Socket | undefined;

  private constructor(
    private readonly response: PlatformResponse,
    private readonly raw: RawResponse,
  ) {
    const { httpVersionMajor, socket } = raw.req ?? {};
    this.source = raw.stream ?? raw;
    // A pipelined answer that waits for earlier ones emits no 'close' when its connection closes.
    this.socket = httpVersionMajor === 1 && typeof socket?.on === 'function' ? socket : undefined;
  }

  static of(response: PlatformResponse | undefined): HttpAnswer | undefined {
    const raw = response?.raw ?? response;
    return response && typeof raw?.on === 'function' ? new HttpAnswer(response, raw) : undefined;
  }

  get isBegun(): boolean {
    return this.raw.headersSent || this.response.sent === true;
  }

  get wasLeft(): boolean {
    const { stream, writableFinished } = this.raw;
    return stream ? stream.aborted : !writableFinished;
  }

  whenOver(listener: () => void): () => void {
    if (this.isOver) {
      listener();
      return () => undefined;
    }
    const tell = (): void => {
      stop();
      listener();
    };
    const stopSource = onEndOf(this.source, ENDS, tell);
    const stopSocket = this.socket && onEndOf(this.socket, ['close'], tell);
    const stop = (): void => {
      stopSource();
      stopSocket?.();
    };
    return stop;
  }

  breakOff(): void {
    const { stream } = this.raw;
    // A client takes a stream that is destroyed without a code for complete.
    if (stream) stream.close(INTERNAL_ERROR);
    else this.raw.destroy();
  }

  private get isOver(): boolean {
    const { closed, destroyed } = this.source;
    if (closed || destroyed || this.socket?.destroyed) return true;
    return !this.raw.stream && this.raw.writableFinished;
  }
}

interface Http2Stream extends Emitter {
  readonly closed: boolean;
  readonly destroyed: boolean;
  /** True if the client has gone before the response was complete. */
  readonly aborted: boolean;
  close(code: number): unknown;
}

interface Http1Socket extends Emitter {
  readonly destroyed: boolean;
}

interface RawResponse extends Emitter {
  readonly closed: boolean;
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  /** Says nothing on HTTP/2, where it is also true after Node has ended the stream of a client that has gone. */
  readonly writableFinished: boolean;
  readonly stream?: Http2Stream;
  readonly req?: { readonly httpVersionMajor?: number; readonly socket?: Http1Socket };
  destroy(): unknown;
}

/** The response of Express, or the reply of Fastify with the response inside. */
type PlatformResponse = RawResponse & {
  readonly raw?: RawResponse;
  /** A field of Fastify. It is also true for a handler that has taken the response over by `hijack()`. */
  readonly sent?: boolean;
};

/** `@grpc/grpc-js` emits 'cancelled' at every end of a call, also when it has sent the status itself. */
class GrpcAnswer implements Answer {
  /** No member of a call of gRPC tells this. */
  readonly isBegun = false;

  constructor(private readonly call: GrpcCall) {}

  get wasLeft(): boolean {
    return this.call.cancelled;
  }

  whenOver(listener: () => void): () => void {
    if (!this.call.cancelled && !this.call.destroyed)
      return onEndOf(this.call, ['cancelled', 'close'], listener);
    listener();
    return () => undefined;
  }

  breakOff(error: unknown): void {
    breakOffCall(this.call, error);
  }
}

/** A call of `@grpc/grpc-js` on its server, as Nest gives it to handlers. */
export interface GrpcCall {
  readonly cancelled: boolean;
  readonly destroyed?: boolean;
  readonly metadata: object;
  getPeer(): string;
  on(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
  emit(event: 'error', error: unknown): unknown;
}

/** The call among the arguments of a message; `undefined` for a message of another transport. */
export function grpcCallOf(args: readonly unknown[]): GrpcCall | undefined {
  return args.find(isGrpcCall);
}

function isGrpcCall(arg: unknown): arg is GrpcCall {
  const { cancelled, getPeer, on } = Object(arg) as Partial<GrpcCall>;
  return typeof cancelled === 'boolean' && typeof getPeer === 'function' && typeof on === 'function';
}

/** Ends a call with an error. The payload of an `RpcException` has the status. */
export function breakOffCall(call: GrpcCall, error: unknown): void {
  call.emit('error', (error as { getError?(): unknown }).getError?.() ?? error);
}
