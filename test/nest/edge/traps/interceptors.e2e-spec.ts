import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Inject,
  Injectable,
  Param,
  Scope,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type PipeTransform,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import {
  CurrentLock,
  LockKeyError,
  LockService,
  Locked,
  LockedInterceptor,
  lockKey,
  type Lock,
  type LockedOptions,
} from 'nestjs-distributed-lock';
import {
  catchError,
  concatMap,
  defer,
  forkJoin,
  from,
  lastValueFrom,
  map,
  retry,
  type Observable,
} from 'rxjs';
import { until } from '#until';
import { once } from '../support.js';
import { startApp, type StartedApp } from '../../integration/stage.js';
import { fresh } from './fresh.js';

/** How an interceptor calls the method of its own handler. */
type Moment = (handle: () => Observable<unknown>, again: () => Promise<unknown>) => Observable<unknown>;

const MOMENTS: readonly (readonly [when: string, moment: Moment])[] = [
  [
    'before it goes on',
    (handle, again) => from(again()).pipe(concatMap((a) => handle().pipe(map((b) => [a, b])))),
  ],
  ['after the result', (handle, again) => handle().pipe(concatMap(async (b) => [await again(), b]))],
  ['in parallel', (handle, again) => forkJoin([defer(again), handle()])],
  ['in the same turn', (handle, again) => forkJoin([again(), handle()])],
  [
    'before each of two tries',
    (handle, again) => {
      let tries = 0;
      const attempt = defer(again).pipe(concatMap((a) => handle().pipe(map((b) => [a, b]))));
      return attempt.pipe(
        map((it) => {
          if (++tries === 1) throw new Error('once more');
          return it;
        }),
        retry(1),
      );
    },
  ],
];

interface Handlers {
  read(id: string, lock?: Lock): Promise<unknown>;
}

/** Interceptors and pipes of this file call whatever handlers the test has. */
let handlers: Handlers;
let moment: Moment;
const enter = (it: Handlers): void => void (handlers = it);

/** A controller that enters itself. */
abstract class Entering implements Handlers {
  constructor(@Inject(LockService) protected readonly locks: LockService) {
    enter(this);
  }

  abstract read(id: string, lock?: Lock): Promise<unknown>;
}

const OTHERS_ONLY: LockedOptions = { when: (id: string) => id === 'other' };

@Injectable()
class Caller implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return moment(
      () => next.handle(),
      () => handlers.read('other'),
    );
  }
}

/** What the flow holds, and the lock that the call was given. */
function seen(locks: LockService, id: string, lock: Lock | undefined): unknown {
  return { id, lock: lock?.key, holds: locks.current(`goods:${id}`)?.key };
}

const own = (id: string): unknown => ({ id, lock: `goods:${id}`, holds: `goods:${id}` });

@Controller()
class OfMethod extends Entering {
  @Get(':id')
  @UseInterceptors(Caller)
  @Locked('goods:<id>')
  async read(@Param('id') id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
    return seen(this.locks, id, lock);
  }
}

@Controller({ scope: Scope.REQUEST })
class OfRequest extends OfMethod {}

@Controller()
class Plain extends Entering {
  @Get(':id')
  @Locked('goods:<id>')
  async read(@Param('id') id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
    return seen(this.locks, id, lock);
  }
}

@Controller()
@UseInterceptors(Caller)
class OfClass extends Plain {}

const GLOBAL = [
  { provide: APP_INTERCEPTOR, useClass: LockedInterceptor },
  { provide: APP_INTERCEPTOR, useClass: Caller },
];
const ALSO_GLOBAL = [{ provide: APP_INTERCEPTOR, useClass: LockedInterceptor }];

/** Where the interceptor stands that calls the method. */
const PLACES: readonly (readonly [where: string, controller: Type, providers: typeof GLOBAL])[] = [
  ['of the class', OfClass, []],
  ['of the method', OfMethod, []],
  ['of the method of a request-scoped class', OfRequest, []],
  ['of the method, the lock bound globally as well', OfMethod, ALSO_GLOBAL],
  ['of the class, the lock bound globally as well', OfClass, ALSO_GLOBAL],
  ['of the application, after a lock that is bound globally', Plain, GLOBAL],
];

describe.each(PLACES)('an interceptor inside the lock, %s', (_where, controller, providers) => {
  let started: StartedApp;
  const isFree = async (key: string): Promise<boolean> => (await started.locks.inspect(key)) === null;

  beforeAll(async () => {
    started = await startApp('express', { controllers: [controller], providers });
  });
  afterAll(() => started.app.close());

  it.each(MOMENTS)(
    'that calls the locked method for another key, %s, has it locked under that key',
    async (_when, how) => {
      moment = how;
      const answer = await started.fetch('/mine');
      expect(await answer.json()).toEqual([own('other'), own('mine')]);
      await until(async () => (await isFree('goods:mine')) && (await isFree('goods:other')));
    },
  );

  it('that calls it for another key waits for that key', async () => {
    moment = (handle, again) => forkJoin([defer(again), handle()]);
    const { fetch, locks } = started;
    const theirs = await locks.acquire('goods:other');
    let isAnswered = false;
    const answer = fetch('/mine').finally(() => (isAnswered = true));
    await until(async () => (await locks.inspect('goods:mine')) !== null);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(isAnswered).toBe(false);
    await theirs.release();
    expect(await (await answer).json()).toEqual([own('other'), own('mine')]);
  });
});

/** How an interceptor goes on to the handler two times, and which of the two fail. */
const TWICE: readonly (readonly [how: string, way: Moment, failures: number])[] = [
  ['goes on again after an error', (handle) => handle().pipe(catchError(handle)), 1],
  ['tries again after an error', (handle) => handle().pipe(retry(1)), 1],
  ['tries again after a pause', (handle) => handle().pipe(retry({ count: 1, delay: 5 })), 1],
  ['goes on again with the result', (handle) => handle().pipe(concatMap(handle)), 0],
];

describe.each(TWICE)('an interceptor behind a global binding of the lock that %s', (_how, way, failures) => {
  it.each([
    ['one global binding', [LockedInterceptor]],
    ['two global bindings', [LockedInterceptor, LockedInterceptor]],
  ])('has its request locked once: %s', async (_what, bindings) => {
    const depths: unknown[] = [];
    @Controller()
    class Flaky {
      @Get(':id')
      @Locked('goods:<params.id>', { reentrant: false })
      async read(@CurrentLock() lock?: Lock): Promise<unknown> {
        depths.push(lock?.depth);
        if (depths.length <= failures) throw new Error('once more');
        return lock?.key;
      }
    }
    moment = way;
    const providers = [...bindings, Caller].map((useClass) => ({ provide: APP_INTERCEPTOR, useClass }));
    const { fetch, events } = await fresh({ controllers: [Flaky], providers });
    expect(await (await fetch('/mine')).text()).toBe('goods:mine');
    await until(() => events.length > 1);
    expect(events).toEqual(once('goods:mine'));
    expect(depths).toEqual([0, 0]);
  });
});

describe('calls of a locked handler from within its request', () => {
  it('that recover from an error of it lock for themselves', async () => {
    @Controller()
    class Failing extends Entering {
      @Get(':id')
      @UseInterceptors(Caller)
      @Locked('goods:<id>')
      async read(@Param('id') id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        if (id === 'mine') throw new Error('mine fails');
        return seen(this.locks, id, lock);
      }
    }
    moment = (handle, again) => handle().pipe(catchError(again));
    const { fetch } = await fresh({ controllers: [Failing] });
    expect(await (await fetch('/mine')).json()).toEqual(own('other'));
  });

  it('are decided on by `when` for their own arguments', async () => {
    @Controller()
    class Sometimes extends Entering {
      @Get(':id')
      @UseInterceptors(Caller)
      @Locked('goods:<id>', { when: (id: string) => id === 'other' })
      async read(@Param('id') id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        return seen(this.locks, id, lock);
      }
    }
    moment = (handle, again) => from(again()).pipe(concatMap((a) => handle().pipe(map((b) => [a, b]))));
    const { fetch, events } = await fresh({ controllers: [Sometimes] });
    expect(await (await fetch('/mine')).json()).toEqual([own('other'), { id: 'mine' }]);
    expect(events).toEqual(once('goods:other'));
  });

  it('are refused where the key is a part of the request, and the request itself is not', async () => {
    @Controller()
    class BySource extends Entering {
      @Get(':id')
      @UseInterceptors(Caller)
      @Locked('goods:<params.id>')
      async read(@CurrentLock() lock?: Lock | string): Promise<unknown> {
        return (lock as Lock).key;
      }
    }
    moment = (handle, again) => {
      const refused = again().catch((error: Error) => error.name);
      return from(refused).pipe(concatMap((a) => handle().pipe(map((b) => [a, b]))));
    };
    const { fetch } = await fresh({ controllers: [BySource] });
    expect(await (await fetch('/mine')).json()).toEqual([LockKeyError.name, 'goods:mine']);
  });

  it('from the producer of its Observable lock for themselves', async () => {
    @Controller()
    class Streaming extends Entering {
      @Get(':id')
      @Locked('goods:<id>')
      async read(@Param('id') id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        const mine = seen(this.locks, id, lock);
        return id === 'mine' ? defer(() => this.read('other')).pipe(map((other) => [other, mine])) : mine;
      }
    }
    const { fetch } = await fresh({ controllers: [Streaming] });
    expect(await (await fetch('/mine')).json()).toEqual([own('other'), own('mine')]);
  });

  it('by a decorator around @Locked that tries again all belong to the request', async () => {
    let tries = 0;
    const Twice: MethodDecorator = (_target, _name, descriptor: PropertyDescriptor) => {
      const original = descriptor.value as (...args: unknown[]) => Promise<unknown>;
      const twice = async function (this: unknown, ...args: unknown[]): Promise<unknown> {
        return original.apply(this, args).catch(() => original.apply(this, args));
      };
      for (const name of Reflect.getOwnMetadataKeys(original)) {
        Reflect.defineMetadata(name, Reflect.getOwnMetadata(name, original), twice);
      }
      descriptor.value = twice;
    };
    @Controller()
    class Flaky {
      @Get(':id')
      @Twice
      @Locked('goods:<params.id>')
      async read(@CurrentLock() lock?: Lock): Promise<unknown> {
        if (++tries === 1) throw new Error('once more');
        return lock?.key;
      }
    }
    const { fetch, events } = await fresh({ controllers: [Flaky] });
    expect(await (await fetch('/mine')).text()).toBe('goods:mine');
    await until(() => events.length > 1);
    expect(events).toEqual(once('goods:mine'));
  });

  it.each<[where: string, controller: Type, providers: typeof GLOBAL]>([
    ['inside the lock of the method', OfMethod, []],
    ['behind a lock that is bound globally', Plain, GLOBAL],
  ])(
    'behind an interceptor that goes on in the flow of another request have their own: %s',
    async (_where, controller: Type, providers: typeof GLOBAL) => {
      /** Starts everything in the flow of the first request. */
      let inFirst: ((work: () => void) => void) | undefined;
      moment = (handle) => {
        const queue: (() => void)[] = [];
        if (!inFirst) {
          inFirst = (work) => queue.push(work);
          const timer = setInterval(() => queue.splice(0).forEach((work) => work()), 1);
          setTimeout(() => clearInterval(timer), 500);
        }
        const start = inFirst;
        return defer(() => new Promise((resolve) => start(() => resolve(lastValueFrom(handle())))));
      };
      const { fetch } = await fresh({ controllers: [controller], providers });
      const answers = await Promise.all([fetch('/1'), fetch('/2'), fetch('/3')]);
      expect(await Promise.all(answers.map((it) => it.json()))).toEqual([own('1'), own('2'), own('3')]);
    },
  );

  it('of which pipes are still pending when the request comes are of the request', async () => {
    @Injectable()
    class Slow implements PipeTransform {
      async transform(value: string): Promise<string> {
        await new Promise((resolve) => setTimeout(resolve, 5));
        return value;
      }
    }
    @Controller()
    class Piped extends Entering {
      @Get(':id')
      @UseInterceptors(Caller)
      @Locked('goods:<id>')
      async read(@Param('id', Slow) id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        return seen(this.locks, id, lock);
      }
    }
    moment = (handle, again) => forkJoin([defer(again), handle()]);
    const { fetch } = await fresh({ controllers: [Piped] });
    expect(await (await fetch('/mine')).json()).toEqual([own('other'), own('mine')]);
  });

  it.each<[what: string, key: unknown, options: LockedOptions]>([
    ['a template', 'goods:<id>', {}],
    ['a function', (id: string) => lockKey`goods:${id}`, {}],
    ['a function that returns a list', (id: string) => [lockKey`goods:${id}`], {}],
    ['a template with a part of the request', 'goods:<id>:<headers.host>', {}],
    ['a function, where the request itself needs no lock', (id: string) => lockKey`goods:${id}`, OTHERS_ONLY],
  ])('from a pipe lock for themselves: %s', async (what, key, options) => {
    const calls: unknown[] = [];
    @Injectable()
    class Calling implements PipeTransform {
      async transform(value: string): Promise<string> {
        if (value === 'mine' && calls.length === 0)
          calls.push('called', await handlers.read('other').catch((it: LockKeyError) => it.code));
        return value;
      }
    }
    let piped = 0;
    @Injectable()
    class Second implements PipeTransform {
      transform(value: string): unknown {
        // The first time it is for the key of the lock, the second time for the handler.
        return piped++ === 0 ? value : new Calling().transform(value);
      }
    }
    @Controller()
    class Piped extends Entering {
      @Get(':id')
      @(Locked(key as string, options) as MethodDecorator)
      async read(@Param('id', Second) id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        return seen(this.locks, id, lock);
      }
    }
    const { fetch } = await fresh({ controllers: [Piped] });
    const answer: unknown = await (await fetch('/mine')).json();
    // A plain call has no request, so such a key cannot be made for it.
    const refused = what.includes('part of the request');
    const isOwn = !refused && options !== OTHERS_ONLY;
    expect(isOwn ? answer : own('mine')).toEqual(own('mine'));
    expect(calls).toEqual(['called', refused ? 'LOCK_KEY' : own('other')]);
  });
});
