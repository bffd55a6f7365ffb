import { Catch, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { LockError } from '../lock/lock.errors.js';
import { transportPayload } from './transport-error.js';

/** A socket of `ws`, whose `emit` stays in this process, or of socket.io. */
interface Client {
  readonly readyState?: number;
  send?(message: string): void;
  emit?(event: string, data: unknown): void;
}

/** Tells the clients of gateways of lock errors. Nest's global filters do not reach gateways, so it is put on each. */
@Catch(LockError)
export class LockErrorGatewayFilter implements ExceptionFilter<LockError> {
  static readonly instance = new LockErrorGatewayFilter();

  catch(error: LockError, host: ArgumentsHost): void {
    LockErrorGatewayFilter.tell(error, host);
  }

  static tell(error: LockError, host: ArgumentsHost): void {
    const client = host.switchToWs().getClient<Client | undefined>();
    const [event, data] = ['exception', transportPayload(error)];
    if (typeof client?.readyState === 'number') client.send?.(JSON.stringify({ event, data }));
    else client?.emit?.(event, data);
  }
}
