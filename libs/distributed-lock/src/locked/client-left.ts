import { HttpException, type ExecutionContext } from '@nestjs/common';

interface RawResponse {
  readonly closed: boolean;
  readonly writableFinished: boolean;
  once(event: 'close', listener: () => void): unknown;
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
export function abortWhenClientLeaves(context: ExecutionContext, waiting: AbortController): () => void {
  const response = responseOf(context);
  const raw = response?.raw ?? response;
  if (!raw?.once) return () => undefined;
  const leave = (): void => {
    if (!raw.writableFinished) waiting.abort(new HttpException('Client Closed Request', 499));
  };
  if (raw.closed) leave();
  raw.once('close', leave);
  return () => raw.removeListener('close', leave);
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
