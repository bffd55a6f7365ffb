import { BadRequestException, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';

export interface BuyerRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body?: { readonly userId?: unknown };
  user?: { readonly id: string };
}

const USER_ID = /^[\w.@-]{1,64}$/;

/**
 * Finds out who buys: the header `x-user-id`, or `userId` in the body. A real shop would check a session here.
 *
 * Guards run before interceptors, so a request without a buyer never waits for the lock.
 */
@Injectable()
export class BuyerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<BuyerRequest>();
    const id = request.headers['x-user-id'] ?? request.body?.userId;
    if (typeof id !== 'string' || !USER_ID.test(id)) {
      throw new BadRequestException(
        'Say who buys: a user id of 1 to 64 letters, digits, or . _ @ - in the header x-user-id, or as userId in the body.',
      );
    }
    request.user = { id };
    return true;
  }
}
