import type { Server } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Head,
  Inject,
  Injectable,
  Res,
  StreamableFile,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { map, of, timeout, type Observable } from 'rxjs';
import { ADAPTERS, startApp, type StartedApp } from '../../integration/stage.js';
import { until } from '#until';
import { once } from '../support.js';
import { outcomesOf } from '../../../support/events.js';

/** Its generators go on when the test says so. */
class Tap {
  private open = 0;
  readonly log: string[] = [];
  let(n: number): void {
    this.open += n;
  }
  async wait(): Promise<void> {
    await until(() => this.open > 0);
    this.open -= 1;
  }
}

let tap = new Tap();

/** Wraps what the handler streams, as `{ data: stream }`. */
@Injectable()
class Wraps implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data) => ({ data })));
  }
}

/** Makes a stream of a result. */
@Injectable()
class Streams implements NestInterceptor {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((it) => this.make(String(it))));
  }

  private async *make(it: string): AsyncGenerator<string> {
    try {
      yield it;
      await tap.wait();
      yield this.locks.current('rows')?.key ?? 'nothing';
    } finally {
      tap.log.push(`closed ${this.locks.current('rows') ? 'under the lock' : 'without it'}`);
    }
  }
}

@Injectable()
class Impatient implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(timeout(20));
  }
}

@Controller()
class Rows {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  private async *make(): AsyncGenerator<string> {
    try {
      for (let n = 0; n < 3; n++) {
        const nested = await this.locks.withLock('rows', { waitMs: 0 }, (lock) => lock.key);
        yield `${this.locks.current('rows')?.key} ${nested}\n`;
        await tap.wait();
      }
    } finally {
      tap.log.push(`closed ${this.locks.current('rows') ? 'under the lock' : 'without it'}`);
    }
  }

  @Get('generator')
  @Locked('rows')
  async *generator(): AsyncGenerator<string> {
    yield* this.make();
  }

  @Get('promised')
  @Locked('rows')
  async promised(): Promise<AsyncGenerator<string>> {
    return this.make();
  }

  @Get('iterable')
  @Locked('rows')
  async iterable(): Promise<AsyncIterable<string>> {
    return { [Symbol.asyncIterator]: () => this.make() };
  }

  @Get('web')
  @Locked('rows')
  async web(): Promise<ReadableStream<Uint8Array>> {
    const source = this.make();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const { done, value } = await source.next();
      if (done) controller.close();
      else controller.enqueue(Buffer.from(value));
    };
    return new ReadableStream(
      { pull, cancel: async () => void (await source.return(undefined)) },
      { highWaterMark: 0 },
    );
  }

  @Get('response')
  @Locked('rows')
  async response(): Promise<Response> {
    return new Response(await this.web(), { status: 202, headers: { 'x-rows': 'yes', 'set-cookie': 'a=b' } });
  }

  @Get('readable')
  @Locked('rows')
  async readable(): Promise<Readable> {
    return Readable.from(this.make());
  }

  @Get('file')
  @Locked('rows')
  async file(): Promise<StreamableFile> {
    return new StreamableFile(Readable.from(this.make(), { objectMode: false }));
  }

  @Get('observed')
  @Locked('rows')
  observed(): Observable<AsyncGenerator<string>> {
    return of(this.make());
  }

  @Get('wrapped')
  @UseInterceptors(Wraps)
  @Locked('rows')
  async *wrapped(): AsyncGenerator<string> {
    yield* this.make();
  }

  @Get('streamed')
  @UseInterceptors(Streams)
  @Locked('rows')
  async streamed(): Promise<string> {
    return 'rows\n';
  }

  @Get('empty')
  @Locked('rows')
  async empty(): Promise<Response> {
    return new Response(null, { status: 204 });
  }

  @Get('used')
  @Locked('rows')
  async used(): Promise<Response> {
    const response = new Response('read');
    await response.text();
    return response;
  }

  @Head('head')
  @Locked('rows')
  async *head(): AsyncGenerator<string> {
    tap.log.push('started');
    yield* this.make();
  }

  /** Nest neither reads nor closes what it returns. */
  @Get('own')
  @Locked('rows')
  async own(@Res() response: { send(text: string): void }): Promise<AsyncGenerator<string>> {
    response.send('own');
    return this.make();
  }

  @Get('late')
  @UseInterceptors(Impatient)
  @Locked('rows')
  async late(): Promise<AsyncGenerator<string>> {
    await tap.wait();
    return this.make();
  }

  @Get('lostEarly')
  @Locked('rows', { leaseMs: 60 })
  async *lostEarly(): AsyncGenerator<string> {
    await tap.wait();
    yield* this.make();
  }

  @Get('sync')
  @(Locked('rows') as MethodDecorator)
  *sync(): Generator<string> {
    yield 'never';
  }

  @Get('busy')
  @Locked('rows', {
    waitMs: 0,
    onBusy: async function* () {
      yield 'busy ';
      yield 'now';
    },
  })
  async *busy(): AsyncGenerator<string> {
    yield 'not busy';
  }
}

const STREAMS = [
  'generator',
  'promised',
  'iterable',
  'web',
  'response',
  'readable',
  'file',
  'observed',
  'wrapped',
  'streamed',
] as const;

describe.each(ADAPTERS)('a stream of a locked handler on %s', (adapter) => {
  let app: StartedApp['app'];
  let locks: LockService;
  let fetch: StartedApp['fetch'];
  let closedAnswers: number;
  const isFree = async (): Promise<boolean> => (await locks.inspect('rows')) === null;

  beforeAll(async () => {
    ({ app, locks, fetch } = await startApp(adapter, { controllers: [Rows] }));
    const server = app.getHttpServer() as Server;
    server.on('request', (_, answer) => {
      // For a stream in an Observable, Nest, fastify and Node's pipe have eight listeners there, and this package two.
      answer.setMaxListeners(11);
      answer.once('close', () => (closedAnswers += 1));
    });
  });
  beforeEach(() => {
    tap = new Tap();
    closedAnswers = 0;
  });
  afterEach(async () => {
    tap.let(100);
    await until(isFree);
  });
  afterAll(() => app.close());

  it.each(STREAMS)('runs under the lock until it has been sent: %s', async (route) => {
    const events = outcomesOf(locks);
    const answer = await fetch(`/${route}`);
    expect(answer.ok).toBe(true);
    const reader = answer.body!.getReader();
    expect(Buffer.from((await reader.read()).value!).toString()).toMatch(/^rows/);
    await pause(10);
    expect(await isFree()).toBe(false);
    tap.let(3);
    let rest = '';
    for (let it = await reader.read(); !it.done; it = await reader.read())
      rest += Buffer.from(it.value).toString();
    expect(rest).toBe(route === 'streamed' ? 'rows' : 'rows rows\nrows rows\n');
    await until(isFree);
    expect(tap.log).toEqual(['closed under the lock']);
    expect(events).toEqual(once('rows'));
  });

  it.each(STREAMS)('is stopped when its client leaves, and then gives the lock back: %s', async (route) => {
    const leaving = new AbortController();
    const answer = await fetch(`/${route}`, { signal: leaving.signal });
    await answer.body!.getReader().read();
    leaving.abort();
    await until(() => closedAnswers === 1);
    // What runs is not torn from under its lock.
    expect(await isFree()).toBe(false);
    tap.let(1);
    await until(isFree);
    expect(tap.log).toEqual(['closed under the lock']);
  });

  it('of a Response keeps what the Response says', async () => {
    tap.let(3);
    const answer = await fetch('/response');
    expect([answer.status, answer.headers.get('x-rows'), answer.headers.getSetCookie()]).toEqual([
      202,
      'yes',
      ['a=b'],
    ]);
    expect(await answer.text()).toBe('rows rows\n'.repeat(3));
  });

  it.each([
    ['empty', 204],
    ['used', 500],
    ['sync', 500],
  ])('that is none, or none any more, holds nothing: %s', async (route, status) => {
    expect((await fetch(`/${route}`)).status).toBe(status);
    await until(isFree);
  });

  it('that nobody reads does not hold the lock: HEAD', async () => {
    expect((await fetch('/head', { method: 'HEAD' })).status).toBe(200);
    await until(isFree);
    expect(tap.log).toEqual([]);
  });

  it('that nobody reads does not hold the lock: of a handler that answers itself', async () => {
    expect(await (await fetch('/own')).text()).toBe('own');
    await until(isFree);
    expect(tap.log).toEqual([]);
  });

  it('that comes after the answer does not hold the lock', async () => {
    expect((await fetch('/late')).status).toBe(500);
    expect(await isFree()).toBe(false);
    tap.let(1);
    await until(isFree);
    expect(tap.log).toEqual([]);
  });

  it('whose client left while the answer waited on its connection gives the lock back', async () => {
    const socket = connect(Number(new URL(await app.getUrl()).port), '127.0.0.1');
    socket.write('GET /late HTTP/1.1\r\nHost: here\r\n\r\nGET /generator HTTP/1.1\r\nHost: here\r\n\r\n');
    await until(async () => !(await isFree()));
    socket.destroy();
    tap.let(10);
    await until(isFree);
    expect(tap.log.filter((it) => it === 'closed without it')).toEqual([]);
  });

  it('breaks off when the lock is lost, and answers 503 if nothing was sent', async () => {
    const answer = await fetch('/generator');
    await locks.forceRelease('rows');
    await expect(answer.text()).rejects.toThrow('terminated');
    expect((await fetch('/lostEarly')).status).toBe(503);
    tap.let(5);
    await until(isFree);
  });

  it('may be what onBusy answers', async () => {
    const mine = await locks.acquire('rows');
    expect(await (await fetch('/busy')).text()).toBe('busy now');
    await mine.release();
    expect(await (await fetch('/busy')).text()).toBe('not busy');
  });
});
