import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { SpanStatusCode, context, trace, type Attributes } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base';
import { Controller, Get, Param } from '@nestjs/common';
import { LockService, LockStoreError, Locked, lockKey, memoryStore } from 'nestjs-distributed-lock';
import { LockTracingModule, traceLocks, type LockTracingModuleOptions } from 'nestjs-distributed-lock/otel';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { startApp } from '../nest/integration/stage.js';
import { until } from '#until';
import { WatchedApp } from './watched-app.js';

/** What a test compares of a span: the registration is the same everywhere. */
interface Seen {
  readonly name: string;
  readonly attributes: Attributes;
  readonly status: ReadableSpan['status'];
}

/** Ended spans, in order of their end. */
class Spans {
  private readonly exporter = new InMemorySpanExporter();
  readonly tracerProvider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(this.exporter)],
  });
  readonly tracer = this.tracerProvider.getTracer('the application');

  get all(): readonly ReadableSpan[] {
    return this.exporter.getFinishedSpans();
  }

  get seen(): readonly Seen[] {
    return this.all.map(({ name, attributes, status }) => {
      const { 'distributed_lock.registration': _, ...others } = attributes;
      return { name, attributes: others, status };
    });
  }

  /** Runs `work` as the part of the application that a span of this name covers. */
  async within<T>(name: string, work: () => Promise<T>): Promise<T> {
    return this.tracer.startActiveSpan(name, async (span) => {
      try {
        return await work();
      } finally {
        span.end();
      }
    });
  }

  named(name: string): readonly ReadableSpan[] {
    return this.all.filter((span) => span.name === name);
  }
}

let app: WatchedApp | undefined;

async function traced(options: LockTracingModuleOptions = {}) {
  const spans = new Spans();
  const { tracerProvider } = spans;
  app = await WatchedApp.start({}, { imports: [LockTracingModule.forRoot({ tracerProvider, ...options })] });
  return { spans, app, locks: app.locks, clock: app.clock };
}

const SET = { code: SpanStatusCode.UNSET };
const name = (attribute: string): string => `distributed_lock.${attribute}`;

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterEach(async () => {
  await app?.close();
  app = undefined;
});
afterAll(() => context.disable());

describe('the spans of locks', () => {
  it('show the wait and the hold of a call under what was active when it asked', async () => {
    const { spans, locks } = await traced();
    const token = await spans.within('request', () => locks.withLock('k', (lock) => lock.fencingToken));
    const [wait, hold, request] = spans.all;
    expect(spans.seen).toEqual([
      {
        name: 'distributed_lock.wait',
        attributes: { [name('key')]: 'k', [name('outcome')]: 'acquired', [name('by')]: 'store' },
        status: SET,
      },
      {
        name: 'distributed_lock.hold',
        attributes: {
          [name('key')]: 'k',
          [name('outcome')]: 'released',
          [name('owner')]: expect.any(String),
          [name('fencing_token')]: token,
        },
        status: SET,
      },
      { name: 'request', attributes: {}, status: SET },
    ]);
    const parents = [wait, hold].map((span) => span?.parentSpanContext?.spanId);
    expect(parents).toEqual([request?.spanContext().spanId, request?.spanContext().spanId]);
    expect(wait?.attributes[name('registration')]).toBe('default');
  });

  it('keep callers apart that wait for one key at once, whoever lets them in', async () => {
    const { spans, locks } = await traced();
    const turns = ['one', 'two', 'three'].map((who) =>
      spans.within(who, () => locks.withLock('k', () => Promise.resolve())),
    );
    await Promise.all(turns);
    const families = ['one', 'two', 'three'].map((who) => {
      const id = spans.named(who)[0]?.spanContext().spanId;
      return spans.all.filter((span) => span.parentSpanContext?.spanId === id).map((span) => span.name);
    });
    expect(families).toEqual(Array(3).fill(['distributed_lock.wait', 'distributed_lock.hold']));
    const by = spans.named('distributed_lock.wait').map(({ attributes }) => attributes[name('by')]);
    expect(by).toEqual(expect.arrayContaining(['store', 'local']));
  });

  it('follow each other: the wait ends where the hold begins, and the hold where the release does', async () => {
    const { spans, locks } = await traced();
    const lock = await locks.acquire('k');
    const heldFrom = Date.now();
    expect(spans.all.map((span) => span.name)).toEqual(['distributed_lock.wait']);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await lock.release();
    const [wait, hold] = spans.all;
    const ms = ([seconds, nanos]: readonly [number, number]): number => seconds * 1e3 + nanos / 1e6;
    // Spans and the test read different clocks.
    for (const moment of [wait!.endTime, hold!.startTime]) expect(ms(moment)).toBeLessThan(heldFrom + 50);
    expect(ms(hold!.startTime)).toBeGreaterThanOrEqual(ms(wait!.startTime));
    expect(ms(hold!.endTime)).toBeGreaterThan(heldFrom + 50);
  });

  it('show a wait that was given up as an error, and who was in the way', async () => {
    const { spans, locks, clock } = await traced();
    const mine = await locks.acquire('k');
    const calls = [
      locks.acquire('k', { waitMs: 50 }),
      locks.acquire('k', { signal: AbortSignal.timeout(0) }),
    ].map((call) => call.catch((error: Error) => error.message));
    await clock.advance(50);
    const messages = await Promise.all(calls);
    await mine.release();
    const owner = spans.named('distributed_lock.hold')[0]?.attributes[name('owner')];
    const key = { [name('key')]: 'k' };
    const outcome = { [name('outcome')]: 'abandoned' };
    const given = spans.seen.filter(({ attributes }) => attributes[name('outcome')] === 'abandoned');
    expect(given).toHaveLength(2);
    const late = { ...key, ...outcome, [name('holder')]: owner, 'error.type': 'LOCK_WAIT_TIMEOUT' };
    expect(given).toContainEqual({
      name: 'distributed_lock.wait',
      attributes: expect.objectContaining(late),
      status: { code: SpanStatusCode.ERROR, message: messages[0] },
    });
    expect(given).toContainEqual({
      name: 'distributed_lock.wait',
      attributes: { ...key, ...outcome, 'error.type': 'aborted' },
      status: { code: SpanStatusCode.ERROR, message: messages[1] },
    });
  });

  it('name the application, the host and the method that was in the way, where the error does', async () => {
    const spans = new Spans();
    const clock = new ManualClock();
    const service = new LockService({ store: memoryStore(), clock, application: 'shop', shutdownGraceMs: 0 });
    traceLocks(service, { tracerProvider: spans.tracerProvider, keyLabel: () => undefined });
    const lock = await service.acquire('k', { site: 'import' });
    const waiting = service.acquire('k', { waitMs: 50 }).catch(() => undefined);
    await clock.advance(50);
    await waiting;
    await lock.release();
    await service.close();
    expect(spans.named('distributed_lock.wait')[1]?.attributes).toMatchObject({
      [name('outcome')]: 'abandoned',
      [name('holder_application')]: 'shop',
      [name('holder_host')]: service.client.host,
      [name('holder_site')]: 'import',
    });
  });

  it('take a key that is not free, asked for once, for an answer', async () => {
    const { spans, locks, app: watched } = await traced();
    await locks.acquire('k', { leaseMs: 60_000 });
    expect(await locks.tryAcquire('k')).toBeNull();
    const [, second] = spans.seen;
    expect(second).toMatchObject({ attributes: { [name('outcome')]: 'abandoned' }, status: SET });
    watched.faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
    const away = locks.tryAcquire('other').catch((error: unknown) => error);
    await watched.clock.advance(1000);
    expect(await away).toBeInstanceOf(LockStoreError);
    expect(spans.seen.at(-1)).toMatchObject({
      attributes: { 'error.type': 'LOCK_STORE' },
      status: { code: SpanStatusCode.ERROR },
    });
  });

  it('tell of renewals without an answer, of the first that got one, and of a loss', async () => {
    const { spans, locks, clock, app: watched } = await traced();
    await locks.acquire('k');
    watched.cutRenewals();
    await clock.advance(12_000);
    watched.mend();
    await clock.advance(5000);
    watched.cutRenewals();
    await clock.advance(31_000);
    const [hold] = spans.named('distributed_lock.hold');
    expect(hold?.events.map((event) => event.name)).toEqual(['suspended', 'resumed', 'suspended']);
    const validFor = Number(hold?.events[0]?.attributes?.[name('valid_for')]);
    expect(validFor).toBeGreaterThan(15);
    expect(validFor).toBeLessThan(20);
    expect(spans.seen.at(-1)).toMatchObject({
      attributes: {
        [name('outcome')]: 'lost',
        [name('reason')]: 'expired',
        'error.type': 'LOCK_LOST',
      },
      status: { code: SpanStatusCode.ERROR, message: expect.stringContaining('Lost "k"') },
    });
  });

  it('tell each of several readers of one lease of its renewals', async () => {
    const { spans, locks, clock, app: watched } = await traced();
    const readers = await Promise.all([1, 2, 3].map(() => locks.acquire('k', { mode: 'shared' })));
    await readers[0]?.release();
    watched.cutRenewals();
    await clock.advance(12_000);
    watched.mend();
    await clock.advance(2000);
    await Promise.all(readers.map((reader) => reader.release()));
    const told = spans.named('distributed_lock.hold').map(({ events }) => events.map((event) => event.name));
    expect(told).toEqual([[], ['suspended', 'resumed'], ['suspended', 'resumed']]);
  });

  it('name the key as keyLabel does, and then neither keys nor holders in messages', async () => {
    const { spans, locks, clock } = await traced({ keyLabel: (key) => key.split(':')[0] });
    await locks.acquire('user:4711');
    const busy = locks.acquire('user:4711', { waitMs: 50 }).catch(() => 'gave up');
    await clock.advance(50);
    await busy;
    expect(spans.seen.map(({ attributes }) => attributes[name('key')])).toEqual(['user', 'user']);
    expect(spans.seen.at(-1)?.status).toEqual({ code: SpanStatusCode.ERROR });
    expect(JSON.stringify(spans.seen)).not.toContain('4711');
    await app?.close();
    const silent = await traced({ keyLabel: () => undefined });
    await silent.locks.withLock('user:4711', () => undefined);
    expect(silent.spans.seen.some(({ attributes }) => name('key') in attributes)).toBe(false);
  });

  it('hurt no lock when keyLabel throws', async () => {
    const { spans, locks } = await traced({
      keyLabel: () => {
        throw new Error('no label');
      },
    });
    expect(await locks.withLock('k', () => 'done')).toBe('done');
    expect(spans.all).toEqual([]);
  });

  it('are not made of nested calls of a key that is held, and are made of each of several keys', async () => {
    const { spans, locks } = await traced();
    await spans.within('request', () =>
      locks.withLock(['a', 'b'], () => locks.withLock('a', () => undefined)),
    );
    const keys = spans.named('distributed_lock.hold').map(({ attributes }) => attributes[name('key')]);
    expect(new Set(keys)).toEqual(new Set(['a', 'b']));
    const request = spans.named('request')[0]?.spanContext().spanId;
    expect(
      spans.named('distributed_lock.wait').every((span) => span.parentSpanContext?.spanId === request),
    ).toBe(true);
  });

  it('go to the tracer provider of the program, which may be set until the application starts', async () => {
    const spans = new Spans();
    trace.setGlobalTracerProvider(spans.tracerProvider);
    try {
      app = await WatchedApp.start({}, { imports: [LockTracingModule.forRoot()] });
      await app.locks.withLock('k', () => undefined);
      expect(spans.all.map((span) => span.name)).toEqual(['distributed_lock.wait', 'distributed_lock.hold']);
    } finally {
      trace.disable();
    }
  });

  it('can be had without a module, for any LockService', async () => {
    app = await WatchedApp.start();
    const spans = new Spans();
    traceLocks(app.locks, { tracerProvider: spans.tracerProvider });
    await app.locks.withLock('k', () => undefined);
    expect(spans.all).toHaveLength(2);
  });

  it('of a locked handler are children of the span of its request', async () => {
    const spans = new Spans();
    @Controller()
    class Goods {
      @Get(':id')
      @Locked('goods:<id>')
      async read(@Param('id') id: string): Promise<string> {
        return id;
      }
    }
    const {
      app: running,
      fetch,
      locks,
    } = await startApp('express', { controllers: [Goods] }, (it) => {
      it.use(
        (_request: unknown, response: { once(event: 'finish', end: () => void): void }, next: () => void) =>
          spans.tracer.startActiveSpan('request', (span) => {
            response.once('finish', () => span.end());
            next();
          }),
      );
    });
    traceLocks(locks, { tracerProvider: spans.tracerProvider });
    await Promise.all(['a:b', 'c'].map((id) => fetch(`/${encodeURIComponent(id)}`)));
    await until(() => spans.all.length === 6);
    const waits = spans.named('distributed_lock.wait');
    const requests = spans.named('request').map((span) => span.spanContext().spanId);
    expect(new Set(waits.map((span) => span.parentSpanContext?.spanId))).toEqual(new Set(requests));
    const keys = waits.map(({ attributes }) => attributes[name('key')]);
    expect(new Set(keys)).toEqual(new Set([lockKey`goods:${'a:b'}`, 'goods:c']));
    await running.close();
  });
});
