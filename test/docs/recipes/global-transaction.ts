import {
  Injectable,
  Module,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { DistributedLockModule, LockedInterceptor } from 'nestjs-distributed-lock';
import type { Observable } from 'rxjs';

@Injectable()
export class TransactionInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle(); // … begin before, commit or roll back after
  }
}

@Module({
  imports: [DistributedLockModule.forRoot()],
  providers: [
    { provide: APP_INTERCEPTOR, useClass: LockedInterceptor }, // first: outermost
    { provide: APP_INTERCEPTOR, useClass: TransactionInterceptor },
  ],
})
export class AppModule {}
