import {
  BadRequestException,
  createParamDecorator,
  Injectable,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';

interface BuyerRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  user?: { readonly id: string };
}

const USER_ID = /^[\w.@-]{1,64}$/;

/**
 * Finds out who buys, from the header `x-user-id`. A real shop would check a session here.
 *
 * Guards run before the lock is acquired, so a request without a buyer never waits for it.
 */
@Injectable()
export class BuyerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<BuyerRequest>();
    const id = request.headers['x-user-id'];
    if (typeof id !== 'string' || !USER_ID.test(id)) {
      throw new BadRequestException(
        'The header x-user-id must name the buyer: 1 to 64 letters, digits, or . _ @ -',
      );
    }
    request.user = { id };
    return true;
  }
}

/** The buyer that `BuyerGuard` found. */
export const Buyer = createParamDecorator((_: unknown, context: ExecutionContext) => {
  return context.switchToHttp().getRequest<BuyerRequest>().user?.id;
});
