import { Catch, HttpException, Injectable } from '@nestjs/common';
import type {
  ArgumentsHost,
  CallHandler,
  ExceptionFilter,
  ExecutionContext,
  NestInterceptor,
  Type,
} from '@nestjs/common';
import {
  DistributedLockModule,
  LockStoreError,
  memoryStore,
  type LockService,
  type LockStore,
  type LockStoreFactory,
} from 'nestjs-distributed-lock';
import { catchError, throwError, type Observable } from 'rxjs';
import type { Stage } from '../../integration/stage.js';

export interface Answer {
  readonly value?: unknown;
  readonly error?: { readonly message: string; readonly code?: string };
}

export interface Running {
  readonly stage: Stage;
  readonly locks: LockService;
  readonly call: (name: string, id?: string) => Promise<Answer>;
  readonly close: () => Promise<void>;
}

export interface Transport {
  /** What its own exceptions are, as interceptors outside see them. */
  readonly exception: Type<Error>;
  readonly forClass: ClassDecorator;
  readonly on: (name: string) => MethodDecorator;
  readonly id: (...pipes: unknown[]) => ParameterDecorator;
  readonly start: (handlers: Type<unknown>) => Promise<Running>;
}

export const registration = (): ReturnType<typeof DistributedLockModule.forRoot> =>
  DistributedLockModule.forRoot({ store: fragileStore, shutdownGraceMs: 500 });

/** As applications have it: it knows nothing but HTTP. */
@Catch(HttpException)
export class HttpOnlyFilter implements ExceptionFilter<HttpException> {
  catch(error: HttpException, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<{ status(code: number): { json(it: unknown): void } }>();
    response.status(error.getStatus()).json(error.getResponse());
  }
}

/** What leaves the handler's own interceptors, for all handlers. */
export const seen: unknown[] = [];

@Injectable()
export class Witness implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      catchError((error: unknown) => {
        seen.push(error);
        return throwError(() => error);
      }),
    );
  }
}

/** A store that has its own mind about one key. */
const fragileStore: LockStoreFactory = {
  create(context) {
    const store = memoryStore().create(context);
    const refuse: LockStore['acquire'] = async () => {
      throw new LockStoreError('secret-host is away', undefined, 'refused');
    };
    return new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]): unknown =>
          name === 'acquire' && JSON.stringify(args).includes('down:')
            ? Reflect.apply(refuse, target, args)
            : Reflect.apply(value, target, args);
      },
    });
  },
};
