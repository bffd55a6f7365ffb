import { Catch, HttpException, Inject, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { throwError } from 'rxjs';
import { getLockHttpToken } from '../distributed-lock.tokens.js';
import { LockError } from '../lock/lock.errors.js';
import { publicMessage, retryAfterSeconds, toHttpException, type LockHttpStatus } from './lock-http.js';

/**
 * Tells clients of lock errors that a handler lets through, as from `LockService` or a locked provider.
 *
 * The module registers it for the whole application. A filter of the application that catches everything and is bound
 * later, or nearer to the handler, comes first: let it call `toHttpException`.
 */
@Catch(LockError)
export class LockErrorFilter extends BaseExceptionFilter implements ExceptionFilter<LockError> {
  constructor(
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {
    super();
  }

  override catch(error: LockError, host: ArgumentsHost): unknown {
    const message = publicMessage(error) ?? { code: error.code, message: 'Internal server error' };
    switch (host.getType<string>()) {
      case 'http':
        return this.answerHttp(error, host);
      case 'rpc':
        return throwError(() => ({ status: 'error', ...message }));
      case 'ws':
        host
          .switchToWs()
          .getClient<{ emit(event: string, data: unknown): void }>()
          .emit('exception', { status: 'error', ...message });
        return undefined;
      default:
        return Object.assign(new Error(message.message, { cause: error }), {
          extensions: { code: message.code },
        });
    }
  }

  private answerHttp(error: LockError, host: ArgumentsHost): void {
    const { httpAdapter } = this.adapterHost;
    const response: unknown = host.switchToHttp().getResponse();
    const exception = toHttpException(error, this.status());
    if (!(exception instanceof HttpException)) return this.handleUnknownError(error, host, httpAdapter);
    if (httpAdapter.isHeadersSent(response)) return void httpAdapter.end(response);
    const seconds = retryAfterSeconds(error);
    if (seconds !== undefined) httpAdapter.setHeader(response, 'Retry-After', String(seconds));
    httpAdapter.reply(response, exception.getResponse(), exception.getStatus());
  }

  private status(): LockHttpStatus | undefined {
    try {
      return this.moduleRef.get<LockHttpStatus>(getLockHttpToken(), { strict: false });
    } catch {
      // All registrations of this application have names: none of them speaks for the rest.
      return undefined;
    }
  }
}
