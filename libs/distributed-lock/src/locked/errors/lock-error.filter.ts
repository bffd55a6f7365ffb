import { Catch, HttpException, Inject, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { throwError } from 'rxjs';
import { getLockHttpToken } from '../../distributed-lock.tokens.js';
import { LockError } from '../../port/lock.errors.js';
import { LockErrorGatewayFilter } from './lock-error.gateway-filter.js';
import { retryAfterSeconds, toHttpException, type LockHttpStatus } from './lock-http.js';
import { LockGraphqlError, payloadOf } from './transport-error.js';

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
