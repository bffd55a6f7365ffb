import type { NestInterceptor } from '@nestjs/common';
import { Activation } from './activation.js';
import { toHandler } from './handler-call.js';

/** The last interceptor of a locked handler that has other interceptors besides the lock. */
export const lastInterceptor: NestInterceptor = {
  intercept(context, next) {
    const activation = Activation.of(context);
    return activation ? toHandler(activation, next) : next.handle();
  },
};
