import { AsyncLocalStorage } from 'node:async_hooks';
import { Observable } from 'rxjs';

const storage = new AsyncLocalStorage();

/** Does nothing: what Nest itself takes for an interceptor. */
export class NoopInterceptor {
  intercept(_context, next) {
    return next.handle();
  }
}

/** The least that a lock around a handler costs if nested calls must find the lock: it only opens an AsyncLocalStorage. */
export class ContextInterceptor {
  intercept(_context, next) {
    return new Observable((observer) => storage.run({}, () => next.handle().subscribe(observer)));
  }
}
