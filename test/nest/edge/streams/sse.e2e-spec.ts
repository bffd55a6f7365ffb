import { connect } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  ConflictException,
  Controller,
  Inject,
  Injectable,
  Param,
  Query,
  Sse,
  UseGuards,
  UseInterceptors,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type MessageEvent,
  type ModuleMetadata,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { LockService, Locked, LockedInterceptor, type LockWaitTimeoutError } from 'nestjs-distributed-lock';
import { EMPTY, NEVER, Observable, delay, finalize, from, of } from 'rxjs';
import { ADAPTERS, startApp, type StartedApp } from '../../integration/stage.js';
import { until } from '#until';
import { outcomesOf } from '../../../support/events.js';

@Injectable()
class Denies implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.switchToHttp().getRequest<{ query: { deny?: string } }>().query.deny === undefined;
  }
}

@Injectable()
class Inside implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle();
  }
}

/** Stands outside of the lock, and answers some requests itself. */
@Injectable()
class Outside implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { query } = context.switchToHttp().getRequest<{ query: { cached?: string } }>();
    return query.cached === undefined ? next.handle() : of({ data: 'cached' });
  }
}

let ended = 0;

@Controller('events')
class Events {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  @UseGuards(Denies)
  @UseInterceptors(Inside)
  @Sse('plain/:id')
  @Locked('events:<id>', { waitMs: 40 })
  plain(@Param('id') id: string): Observable<MessageEvent> {
    const holds = this.locks.current(`events:${id}`)?.key ?? 'nothing';
    return of({ data: holds }, { data: 'end' }).pipe(delay(20));
  }

  @Locked('events:<id>', { waitMs: 40 })
  @Sse('open/:id')
  async open(@Param('id') id: string): Promise<Observable<MessageEvent>> {
    return new Observable<MessageEvent>((out) => out.next({ data: id })).pipe(finalize(() => (ended += 1)));
  }

  @Sse('waits/:id')
  @Locked('events:<id>')
  waits(@Param('id') id: string): Observable<MessageEvent> {
    return of({ data: id });
  }

  @Sse('key')
  @Locked('events:<id>')
  key(@Query('id') id: string): Observable<MessageEvent> {
    return of({ data: id });
  }

  @Sse('fallback/:kind')
  @Locked('events:fallback', {
    waitMs: 0,
    onBusy: (busy: LockWaitTimeoutError, kind: string) => {
      switch (kind) {
        case 'events':
          return from([{ data: busy.code }, { data: 'later' }]);
        case 'value':
          return { data: kind };
        case 'none':
          return EMPTY;
        default:
          throw new ConflictException('not now');
      }
    },
  })
  fallback(@Param('kind') _kind: string): Observable<MessageEvent> {
    return NEVER;
  }

  @Sse('lost')
  @Locked('events:lost')
  lost(): Observable<MessageEvent> {
    return new Observable((out) => out.next({ data: 'first' }));
  }
}

function all(locks: LockService): readonly string[] {
  const happened: string[] = [];
  locks.events$.subscribe(({ type, key }) => happened.push(`${type} ${key}`));
  return happened;
}

const started: StartedApp[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map(({ app }) => app.close()));
});

describe.each(ADAPTERS)('server-sent events on %s', (adapter) => {
  const start = async (metadata: ModuleMetadata = {}): Promise<StartedApp> => {
    const app = await startApp(adapter, { controllers: [Events], ...metadata });
    started.push(app);
    return app;
  };
  const isFree = async ({ locks }: StartedApp, key: string): Promise<boolean> =>
    (await locks.inspect(key)) === null;

  it.each(['plain', 'open'])('whose key is busy are answered 423 before any header, by %s', async (route) => {
    const { locks, fetch } = await start();
    const mine = await locks.acquire('events:1');
    const answer = await fetch(`/events/${route}/1`);
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([423, '1']);
    expect(answer.headers.get('content-type')).toContain('application/json');
    expect(await answer.json()).toMatchObject({ statusCode: 423, code: 'LOCK_WAIT_TIMEOUT' });
    await mine.release();
  });

  it('without a key are answered 400, while the application closes 503', async () => {
    const app = await start();
    expect((await app.fetch('/events/key')).status).toBe(400);
    const held = await app.locks.acquire('events:1');
    const closing = app.locks.drain();
    expect((await app.fetch('/events/key?id=2')).status).toBe(503);
    await held.release();
    await closing;
  });

  it('hold the lock from before the headers until their end', async () => {
    const app = await start();
    const events = outcomesOf(app.locks);
    const answer = await app.fetch('/events/plain/1');
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect(await answer.text()).toContain('data: events:1');
    await until(() => isFree(app, 'events:1'));
    expect(events).toEqual(['acquired events:1', 'released events:1']);
  });

  it('are locked once where the interceptor is bound globally as well', async () => {
    const app = await start({ providers: [{ provide: APP_INTERCEPTOR, useClass: LockedInterceptor }] });
    const events = outcomesOf(app.locks);
    expect(await (await app.fetch('/events/plain/1')).text()).toContain('data: events:1');
    await until(() => isFree(app, 'events:1'));
    expect(events).toEqual(['acquired events:1', 'released events:1']);
  });

  it('hold it until the client leaves', async () => {
    const app = await start();
    const leaving = new AbortController();
    const before = ended;
    const answer = await app.fetch('/events/open/1', { signal: leaving.signal });
    await answer.body?.getReader().read();
    expect(await isFree(app, 'events:1')).toBe(false);
    leaving.abort();
    await until(() => isFree(app, 'events:1'));
    expect(ended).toBe(before + 1);
  });

  it('whose client leaves in the queue leave it', async () => {
    const app = await start();
    const mine = await app.locks.acquire('events:1');
    const happened = all(app.locks);
    const leaving = new AbortController();
    const answer = app.fetch('/events/waits/1', { signal: leaving.signal });
    await until(() => happened.includes('asked events:1'));
    leaving.abort();
    await expect(answer).rejects.toThrow('aborted');
    await until(() => happened.includes('abandoned events:1'));
    await mine.release();
  });

  it('whose client leaves in the moment of the grant give it back, or leave the queue', async () => {
    const app = await start();
    const port = Number(new URL(await app.app.getUrl()).port);
    const mine = await app.locks.acquire('events:1');
    const happened = all(app.locks);
    const socket = connect(port, '127.0.0.1');
    const request = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: here\r\n\r\n`;
    // The second answer waits for the first one, and its response is not told when their connection closes.
    socket.write(request('/events/open/2') + request('/events/open/1'));
    await until(() => happened.includes('asked events:1'));
    socket.destroy();
    await mine.release();
    await until(async () => (await isFree(app, 'events:1')) && (await isFree(app, 'events:2')));
    expect(happened).toContainEqual(expect.stringMatching(/^(acquired|abandoned) events:1$/));
  });

  it('that another guard refuses, or an interceptor outside answers, leave nothing held', async () => {
    const app = await start({ providers: [{ provide: APP_INTERCEPTOR, useClass: Outside }] });
    const events = outcomesOf(app.locks);
    expect((await app.fetch('/events/plain/1?deny')).status).toBe(403);
    expect(events).toEqual([]);
    expect(await (await app.fetch('/events/plain/1?cached')).text()).toContain('data: cached');
    await until(() => isFree(app, 'events:1'));
    expect(await (await app.fetch('/events/plain/1')).text()).toContain('data: events:1');
  });

  it.each([
    ['events', 200, ['data: LOCK_WAIT_TIMEOUT', 'data: later']],
    ['value', 200, ['data: value']],
    ['none', 200, []],
    ['error', 409, ['"not now"']],
  ] as const)('that are busy are what onBusy gives: %s', async (kind, status, parts) => {
    const { locks, fetch } = await start();
    const mine = await locks.acquire('events:fallback');
    const answer = await fetch(`/events/fallback/${kind}`);
    const text = await answer.text();
    expect(answer.status).toBe(status);
    for (const part of parts) expect(text).toContain(part);
    await mine.release();
  });

  it('tell of a loss by an event, since their headers are out', async () => {
    const { fetch, locks } = await start();
    const answer = await fetch('/events/lost');
    expect(answer.status).toBe(200);
    await locks.forceRelease('events:lost');
    const text = await answer.text();
    expect(text).toContain('data: first');
    expect(text).toContain('event: error');
    expect(text).toContain('The lock was lost');
  });
});
