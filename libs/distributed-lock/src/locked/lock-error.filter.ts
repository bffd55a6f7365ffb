import { Catch, type ArgumentsHost, type ExceptionFilter, HttpException, Inject } from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { throwError } from 'rxjs';
import { getLockHttpToken } from '../distributed-lock.tokens.js';
import { LockError } from '../port/lock.errors.js';
import { retryAfterSeconds, toHttpException, type LockHttpStatus } from './lock-http.js';
import { TranslatedLockError, transportPayload, LockGraphqlError, payloadOf } from './transport-error.js';

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
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {
    super();
  }

  override catch(error: LockError | LockGraphqlError, host: ArgumentsHost): unknown {
    const type = host.getType<string>();
    switch (type) {
      case 'http':
        return this.answerHttp(error as LockError, host);
      case 'rpc':
        return throwError(() => payloadOf(error as LockError, host.getArgs()));
      case 'ws':
        return LockErrorGatewayFilter.tell(error as LockError, host);
      case 'graphql':
        throw error instanceof LockGraphqlError ? error : new LockGraphqlError(error);
      default:
        // Thrown, because a caller would take a returned error for a result.
        throw error;
    }
  }

  private answerHttp(error: LockError, host: ArgumentsHost): void {
    const { httpAdapter } = this.adapterHost;
    const response: unknown = host.switchToHttp().getResponse();
    const exception = toHttpException(error, this.status());
    if (!(exception instanceof HttpException)) return this.handleUnknownError(error, host, httpAdapter);
    if (httpAdapter.isHeadersSent(response)) {
      httpAdapter.end(response);
      return;
    }
    const seconds = retryAfterSeconds(error);
    if (seconds !== undefined) httpAdapter.setHeader(response, 'Retry-After', String(seconds));
    httpAdapter.reply(response, exception.getResponse(), exception.getStatus());
  }

  private status(): LockHttpStatus | undefined {
    try {
      return this.moduleRef.get<LockHttpStatus>(getLockHttpToken(), { strict: false });
    } catch {
      // All registrations of this application have names, and none of them has the statuses for the others.
      return undefined;
    }
  }
}
