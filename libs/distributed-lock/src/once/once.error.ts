import { STATUS_CODES } from 'node:http';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  Inject,
  Injectable,
} from '@nestjs/common';
import { BaseExceptionFilter, HttpAdapterHost } from '@nestjs/core';

/** Why a call of `once.run` got no result. `ONCE_DONE` is for `attempt.rememberIn` alone. */
export type OnceErrorCode = 'ONCE_RUNNING' | 'ONCE_MISMATCH' | 'ONCE_RESULT_LOST' | 'ONCE_DONE';

/** A call of `once.run`, or of a method with `@Once`, got no result. Tell the reasons apart by `code`. */
export class OnceError extends Error {
  constructor(
    readonly code: OnceErrorCode,
    /** The key of the call. */
    readonly key: string,
    message: string,
  ) {
    super(message);
    this.name = 'OnceError';
  }
}

interface Answer {
  readonly status: number;
  /** The text for the client. It does not name the key. */
  readonly message: string;
  readonly retryAfter?: number;
}

/** As the IETF draft "The Idempotency-Key HTTP Header Field" asks: 409 while the first request runs, 422 for another payload. */
const ANSWERS: Readonly<Record<OnceErrorCode, Answer>> = {
  ONCE_RUNNING: {
    status: 409,
    message: 'A request with this key is being handled. Try again in a moment.',
    retryAfter: 1,
  },
  ONCE_MISMATCH: { status: 422, message: 'This key was used for another request.' },
  ONCE_RESULT_LOST: { status: 409, message: 'This was done, and its answer was not kept.' },
  ONCE_DONE: { status: 409, message: 'This was done before.' },
};

/** Answers HTTP clients for an `OnceError`. Other transports get the error as it is. `OnceModule` registers it for the application. */
@Injectable()
@Catch(OnceError)
export class OnceErrorFilter extends BaseExceptionFilter implements ExceptionFilter<OnceError> {
  constructor(@Inject(HttpAdapterHost) protected override readonly httpAdapterHost: HttpAdapterHost) {
    super();
  }

  override catch(error: OnceError, host: ArgumentsHost): void {
    if (host.getType<string>() !== 'http') throw error;
    const { status: statusCode, message, retryAfter } = ANSWERS[error.code];
    const response: unknown = host.switchToHttp().getResponse();
    if (retryAfter !== undefined)
      this.httpAdapterHost.httpAdapter.setHeader(response, 'Retry-After', String(retryAfter));
    const body = { statusCode, error: STATUS_CODES[statusCode], message, code: error.code };
    // oxlint-disable-next-line promise/valid-params -- this is no promise
    super.catch(new HttpException(body, statusCode, { cause: error }), host);
  }
}
