import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { BuyerRequest } from './buyer.guard.js';

/** The buyer that `BuyerGuard` found. */
export const Buyer = createParamDecorator((_: unknown, context: ExecutionContext) => {
  return context.switchToHttp().getRequest<BuyerRequest>().user?.id;
});
