import type { ExecutionContext } from '@nestjs/common';
import { breakOffCall, grpcCallOf, type GrpcCall } from '../nest/grpc-call.js';
import { onEndOf } from '../../async-context/shared-listener.js';
import { HttpAnswer, type Answer, type PlatformResponse } from './http-answer.js';

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
