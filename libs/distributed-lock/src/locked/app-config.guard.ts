import type { CanActivate, ExecutionContext } from '@nestjs/common';

/** The arguments of messages that are handled with the global enhancers of the application. */
const seen = new WeakSet<object>();

/**
 * Marks the messages that pass the global enhancers of the application. A microservice that is connected without
 * `inheritAppConfig` has none of them, this guard included. One handler may serve messages of both kinds.
 */
export class AppConfigGuard implements CanActivate {
  /** @param onMessage called with each message, before global interceptors run */
  constructor(private readonly onMessage: (context: ExecutionContext) => void) {}

  canActivate(context: ExecutionContext): boolean {
    if (context.getType() === 'rpc') seen.add(context.getArgs());
    if (context.getType() !== 'http') this.onMessage(context);
    return true;
  }
}

/** False for a message that no global pipe of the application is applied to. */
export function hasAppConfig(context: ExecutionContext): boolean {
  return context.getType() !== 'rpc' || seen.has(context.getArgs());
}
