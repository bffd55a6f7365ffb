import type { NestInterceptor } from '@nestjs/common';
import { Activation } from './activation.js';

/** The last interceptor of a locked handler that has others besides the lock: what it goes on to is the handler itself. */
export const lastInterceptor: NestInterceptor = {
  intercept: (context, next) => Activation.of(context)?.toHandler(next) ?? next.handle(),
};
