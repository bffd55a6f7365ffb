// Whether Nest applies the global pipes and interceptors of the application to a request. `MessageGuard` notes the messages of
// which that is true, and `AppConfigGuard` does where there is no locked handler; whoever must know Nest's order asks here.
import type { CanActivate, ExecutionContext } from '@nestjs/common';

/**
 * The arguments of the messages that a global guard of the application has seen. A microservice that is connected without
 * `inheritAppConfig` skips all global enhancers, and nothing else tells the two apart. One handler may serve microservices of both
 * kinds.
 */
const guarded = new WeakSet<object>();

/** To be called by a global guard of the application, for each message. */
export function noteAppConfig(context: ExecutionContext): void {
  guarded.add(context.getArgs());
}

/** False for a message that no global guard has seen: Nest applies no global pipes and interceptors of the application to it. */
export function hasAppConfig(context: ExecutionContext): boolean {
  return context.getType() !== 'rpc' || guarded.has(context.getArgs());
}

/** A global guard of the application that does nothing but note its messages. */
export class AppConfigGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (context.getType() !== 'http') noteAppConfig(context);
    return true;
  }
}
