import { HttpException, type ExecutionContext } from '@nestjs/common';
import type { Departure } from './departure.js';

interface CloseSource {
  on(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

interface RawResponse extends CloseSource {
  readonly closed: boolean;
  readonly writableFinished: boolean;
  readonly req?: {
    readonly httpVersionMajor?: number;
    readonly socket?: CloseSource & { readonly destroyed?: boolean };
  };
}

/** The response of Express, or the reply of Fastify with the response inside. */
type PlatformResponse = RawResponse & { readonly raw?: RawResponse };

/** The context that applications usually give to GraphQL. Integrations of Fastify have `reply`. */
interface GraphqlContext {
  readonly req?: { readonly res?: PlatformResponse };
  readonly res?: PlatformResponse;
  readonly reply?: PlatformResponse;
}

/** Leaves the queue when the client closes its connection. Nest itself tears down gateways and Observables. */
export function leaveWithClient(context: ExecutionContext, departure: Departure): void {
  const raw = rawResponseOf(context);
  if (!raw) return;
  const leave = (): void => {
    if (!raw.writableFinished) departure.leave(new HttpException('Client Closed Request', 499));
  };
  if (raw.closed) return leave();
  raw.on('close', leave);
  departure.whenOver(() => raw.removeListener('close', leave));
}

/**
 * Calls `listener` when the answer was sent, or the client has gone. Never calls it where no answer is open.
 *
 * @returns stops listening
 */
export function whenAnswered(context: ExecutionContext, listener: () => void): () => void {
  const raw = rawResponseOf(context);
  if (!raw) return () => undefined;
  const { httpVersionMajor, socket } = raw.req ?? {};
  // A pipelined answer that waits for earlier ones emits no 'close' when its connection closes.
  const sources = httpVersionMajor === 1 && socket ? [raw, socket] : [raw];
  const stop = (): void => sources.forEach((source) => source.removeListener('close', tell));
  const tell = (): void => {
    stop();
    listener();
  };
  if (raw.closed || socket?.destroyed) tell();
  else sources.forEach((source) => source.on('close', tell));
  return stop;
}

function rawResponseOf(context: ExecutionContext): RawResponse | undefined {
  const response = responseOf(context);
  const raw = response?.raw ?? response;
  return typeof raw?.on === 'function' ? raw : undefined;
}

/** `undefined` where no answer is open: for messages and subscriptions. */
function responseOf(context: ExecutionContext): PlatformResponse | undefined {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getResponse<PlatformResponse>();
    case 'graphql': {
      const { req, res, reply } = context.getArgByIndex<GraphqlContext | undefined>(2) ?? {};
      return res ?? req?.res ?? reply;
    }
    default:
      return undefined;
  }
}
