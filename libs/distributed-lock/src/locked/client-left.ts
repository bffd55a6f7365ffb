import { HttpException, type ExecutionContext } from '@nestjs/common';
import type { Departure } from './departure.js';

interface RawResponse {
  readonly closed: boolean;
  readonly writableFinished: boolean;
  on(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

/** Fastify's reply has the response inside. */
type PlatformResponse = RawResponse & { readonly raw?: RawResponse };

/** What applications usually give to GraphQL; `reply` where Fastify's own integrations do. */
interface GraphqlContext {
  readonly req?: { readonly res?: PlatformResponse };
  readonly res?: PlatformResponse;
  readonly reply?: PlatformResponse;
}

/** A client that has gone must not stand in line. Nest itself tears down gateways, and handlers that return Observables. */
export function leaveWithClient(context: ExecutionContext, departure: Departure): void {
  const response = responseOf(context);
  const raw = response?.raw ?? response;
  if (!raw?.on) return;
  const leave = (): void => {
    if (!raw.writableFinished) departure.leave(new HttpException('Client Closed Request', 499));
  };
  if (raw.closed) return leave();
  raw.on('close', leave);
  departure.whenOver(() => raw.removeListener('close', leave));
}

/** `undefined` where no answer is open, as for messages and subscriptions. */
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
