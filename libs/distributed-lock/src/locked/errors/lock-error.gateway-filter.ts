import { Catch, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { LockError } from '../../port/lock.errors.js';
import { TranslatedLockError, transportPayload } from './transport-error.js';

/**
 * Sends lock errors to the clients of gateways. It is bound to each gateway, because Nest's global filters do not reach
 * gateways. Nest 11 sends clients of `ws` no exception at all.
 */
@Catch(LockError, TranslatedLockError)
export class LockErrorGatewayFilter implements ExceptionFilter<LockError | TranslatedLockError> {
  static readonly instance = new LockErrorGatewayFilter();

  catch(error: LockError | TranslatedLockError, host: ArgumentsHost): void {
    LockErrorGatewayFilter.tell(error instanceof TranslatedLockError ? error.cause : error, host);
  }

  static tell(error: LockError, host: ArgumentsHost): void {
    const client = host.switchToWs().getClient<Client | undefined>();
    const [event, data] = ['exception', transportPayload(error)];
    if (typeof client?.readyState === 'number') client.send?.(JSON.stringify({ event, data }));
    else client?.emit?.(event, data);
  }
}

/** A socket of `ws`, whose `emit` stays in this process, or of socket.io. */
interface Client {
  readonly readyState?: number;
  send?(message: string): void;
  emit?(event: string, data: unknown): void;
}
