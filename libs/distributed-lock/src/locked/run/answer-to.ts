import type { ExecutionContext } from '@nestjs/common';
import { grpcCallOf } from '../nest/grpc-call.js';
import type { Answer } from './answer.js';
import { GrpcAnswer } from './grpc-answer.js';
import { HttpAnswer, type PlatformResponse } from './http-answer.js';

/** `undefined` where no answer is open: for subscriptions, gateways and messages without a call. */
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
