// Answers clients for the lock errors that no code of the application has caught. The module registers one filter for the
// application, and the explorer binds the other to each gateway.
import { type ArgumentsHost, Catch, type ExceptionFilter, Inject } from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { throwError } from 'rxjs';
import { LockError } from '../port/lock.errors.js';
import { httpErrorFor } from './client-errors.js';
import { LockGraphqlError, payloadOf, TranslatedLockError, transportPayload } from './transport-errors.js';

/**
 * Sends lock errors to the clients of gateways. Bound to each gateway, because Nest's global filters do not apply to gateways and
 * Nest 11 sends no exceptions to clients of `ws`.
 */
@Catch(LockError, TranslatedLockError)
export class LockErrorGatewayFilter implements ExceptionFilter<LockError | TranslatedLockError> {
  static readonly instance = new LockErrorGatewayFilter();

  catch(error: LockError | TranslatedLockError, host: ArgumentsHost): void {
    sendToSocket(error instanceof TranslatedLockError ? error.cause : error, host);
  }
}

function sendToSocket(error: LockError, host: ArgumentsHost): void {
  const client = host.switchToWs().getClient<Socket | undefined>();
  const [event, data] = ['exception', transportPayload(error)];
  if (typeof client?.readyState === 'number') client.send?.(JSON.stringify({ event, data }));
  else client?.emit?.(event, data);
}

/** A socket of socket.io, whose `emit` sends to the client, or of `ws`, whose `emit` only calls local listeners. */
interface Socket {
  readonly readyState?: number;
  send?(message: string): void;
  emit?(event: string, data: unknown): void;
}

/**
 * Answers the client for a lock error that the handler did not catch, from `LockService` or from a locked provider.
 *
 * The module registers it for the whole application. A filter of the application that catches everything and is registered later,
 * or nearer to the handler, takes precedence; let that filter call `toHttpException`.
 */
@Catch(LockError, LockGraphqlError)
export class LockErrorFilter
  extends BaseExceptionFilter
  implements ExceptionFilter<LockError | LockGraphqlError>
{
  constructor(
    @Inject(HttpAdapterHost) protected override readonly httpAdapterHost: HttpAdapterHost,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {
    super();
  }

  override catch(error: LockError | LockGraphqlError, host: ArgumentsHost): unknown {
    switch (host.getType<string>()) {
      case 'http':
        return this.answerHttp(error as LockError, host);
      case 'rpc':
        return throwError(() => payloadOf(error as LockError, host.getArgs()));
      case 'ws':
        return sendToSocket(error as LockError, host);
      case 'graphql':
        throw error instanceof LockGraphqlError ? error : new LockGraphqlError(error);
      default:
        // Throw it: if the filter returned the error, the caller would take it for a result.
        throw error;
    }
  }

  private answerHttp(error: LockError, host: ArgumentsHost): void {
    const { httpAdapter } = this.httpAdapterHost;
    // oxlint-disable-next-line promise/valid-params -- this is no promise
    super.catch(httpErrorFor(error, { host, httpAdapter, moduleRef: this.moduleRef }), host);
  }
}
