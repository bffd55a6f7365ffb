import { Catch, type ArgumentsHost, type ExceptionFilter, Inject } from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { throwError } from 'rxjs';
import { findProvider, getLockHttpToken } from '../distributed-lock.tokens.js';
import { LockError } from '../port/lock.errors.js';
import { retryAfterSeconds, toHttpException, type LockHttpStatus } from './lock-http.js';
import { LockGraphqlError, TranslatedLockError, payloadOf, transportPayload } from './transport-error.js';

/**
 * Sends lock errors to the clients of gateways. It is bound to each gateway, because Nest's global filters do not reach
 * gateways. Nest 11 sends no exception at all to clients of `ws`.
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

/** A socket of `ws`, whose `emit` stays in this process, or of socket.io. */
interface Socket {
  readonly readyState?: number;
  send?(message: string): void;
  emit?(event: string, data: unknown): void;
}

/**
 * Answers clients for lock errors that a handler lets through, as from `LockService` or a locked provider.
 *
 * The module registers it for the whole application, gateways included. A filter of the application that catches
 * everything and is bound later, or nearer to the handler, comes first. Let it call `toHttpException`.
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
        // Thrown, because a caller would take a returned error for a result.
        throw error;
    }
  }

  private answerHttp(error: LockError, host: ArgumentsHost): void {
    const { httpAdapter } = this.httpAdapterHost;
    const response: unknown = host.switchToHttp().getResponse();
    const seconds = retryAfterSeconds(error);
    if (seconds !== undefined && !httpAdapter.isHeadersSent(response)) {
      httpAdapter.setHeader(response, 'Retry-After', String(seconds));
    }
    // Without a registration that has no name there are no statuses for all.
    const status = findProvider<LockHttpStatus>(this.moduleRef, getLockHttpToken());
    // oxlint-disable-next-line promise/valid-params -- this is no promise
    super.catch(toHttpException(error, status), host);
  }
}
