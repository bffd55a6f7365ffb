import { AsyncResource } from 'node:async_hooks';
import { Observable } from 'rxjs';

/** The same events. Each subscriber gets them in the async context in which it has subscribed. */
export function bindEvents<T>(source: Observable<T>): Observable<T> {
  return new Observable((out) => {
    const context = new AsyncResource('nestjs-distributed-lock.events');
    return source.subscribe({
      next: (value) => context.runInAsyncScope(() => out.next(value)),
      error: (error) => context.runInAsyncScope(() => out.error(error)),
      complete: () => context.runInAsyncScope(() => out.complete()),
    });
  });
}
