import * as streams from 'node:stream';
import { pipeline, Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createGzip, gunzipSync, type Gzip } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { Controller, Inject, Injectable } from '@nestjs/common';
import { Locked, LockService } from 'nestjs-distributed-lock';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { MessagePattern, Payload } from '@nestjs/microservices';
import { type Observable, of } from 'rxjs';
import { until } from '#until';
import { Stage } from '../../integration/stage.js';
import { fresh } from '../traps/fresh.js';
import { startRpc } from '../transports/messages.js';
import { startWs } from '../transports/sockets.js';
import type { Running } from '../transports/transport.js';

type Chain = AsyncIterable<Uint8Array>;

/** Without types in @types/node. */
interface Streams {
  compose(...streams: unknown[]): Chain;
}

/** A compressor that gives out each part as soon as it has it. */
const gzip = (): Gzip => createGzip({ flush: 2 });

const CHAINS: Readonly<Record<string, (source: Readable) => Chain>> = {
  'source.pipe(gzip)': (source) => source.pipe(gzip()),
  'pipeline(source, gzip)': (source) => pipeline(source, gzip(), () => undefined),
  'compose(source, gzip)': (source) => (streams as unknown as Streams).compose(source, gzip()),
  'Readable.toWeb(source)': (source) => Readable.toWeb(source) as unknown as Chain,
  'a web stream through another': (source) => {
    const web = Readable.toWeb(source) as ReadableStream<Uint8Array>;
    return web.pipeThrough(new CompressionStream('gzip') as never) as unknown as Chain;
  },
};

@Injectable()
class Ledger {
  readonly log: string[] = [];
  constructor(
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  /** Its second part stands still until the test lets it go on. */
  private source(): Readable {
    const { stage, locks, log } = this;
    const parts = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.from('one ');
      await stage.reach('second part');
      log.push(`ran under ${locks.current('ledger')?.key}`);
      yield Buffer.from('two');
    };
    return Readable.from(parts());
  }

  @Locked('ledger')
  async chain(name: string): Promise<Chain> {
    return CHAINS[name]!(this.source());
  }

  /** What docs/recipes/http-answers.md advises. */
  @Locked('ledger')
  async *generator(name: string): AsyncGenerator<Uint8Array> {
    const source = this.source();
    try {
      yield* CHAINS[name]!(source);
    } finally {
      source.destroy();
      await finished(source).catch(() => undefined);
    }
  }
}

describe.each(Object.keys(CHAINS))('a chain of streams: %s', (name) => {
  const start = async () => {
    const { app, stage, isFree } = await fresh({ providers: [Ledger] });
    return { ledger: app.get(Ledger), stage, isFree: () => isFree('ledger') };
  };
  const read = async (chain: Chain): Promise<string> => {
    const parts: Uint8Array[] = [];
    for await (const part of chain) parts.push(part);
    const bytes = Buffer.concat(parts);
    return (bytes[0] === 0x1f ? gunzipSync(bytes) : bytes).toString();
  };

  it.each(['chain', 'generator'] as const)(
    'that is read to its end holds the lock to its end: %s',
    async (how) => {
      const { ledger, stage, isFree } = await start();
      const all = read(await ledger[how](name));
      await until(() => stage.isAt('second part'));
      expect(await isFree()).toBe(false);
      stage.go('second part');
      expect(await all).toBe('one two');
      expect(ledger.log).toEqual(['ran under ledger']);
      await until(isFree);
    },
  );

  it('that is left early gives the lock back when the returned stream has closed, maybe before its source', async () => {
    const { ledger, stage, isFree } = await start();
    const reader = (await ledger.chain(name))[Symbol.asyncIterator]();
    await reader.next();
    await until(() => stage.isAt('second part'));
    const left = reader.return?.();
    await until(isFree);
    expect(stage.isAt('second part')).toBe(true);
    stage.go('second part');
    await left;
  });

  it('that is left early holds the lock until its source has ended, inside a generator that ends it', async () => {
    const { ledger, stage, isFree } = await start();
    const reader = ledger.generator(name);
    await reader.next();
    await until(() => stage.isAt('second part'));
    const left = reader.return(undefined);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(await isFree()).toBe(false);
    stage.go('second part');
    await left;
    expect(ledger.log).toEqual(['ran under ledger']);
    await until(isFree);
  });
});

const log: string[] = [];

async function* make(): AsyncGenerator<number> {
  log.push('started');
  yield 1;
}

const web = (): ReadableStream<string> =>
  new ReadableStream({ cancel: () => void log.push('cancelled') }, { highWaterMark: 0 });

@Controller()
class Messages {
  @MessagePattern('generator')
  @Locked('k:<id>')
  async *generator(@Payload('id') _id: string): AsyncGenerator<number> {
    yield* make();
  }

  @MessagePattern('web')
  @Locked('k:<id>')
  async web(@Payload('id') _id: string): Promise<ReadableStream<string>> {
    return web();
  }

  @MessagePattern('observable')
  @Locked('k:<id>')
  observable(@Payload('id') id: string): Observable<string> {
    return of(id);
  }
}

@WebSocketGateway()
class Gateway {
  @SubscribeMessage('generator')
  @Locked('k:<id>')
  async *generator(@MessageBody('id') _id: string): AsyncGenerator<number> {
    yield* make();
  }

  @SubscribeMessage('web')
  @Locked('k:<id>')
  async web(@MessageBody('id') _id: string): Promise<ReadableStream<string>> {
    return web();
  }

  @SubscribeMessage('observable')
  @Locked('k:<id>')
  observable(@MessageBody('id') id: string): Observable<string> {
    return of(id);
  }
}

describe.each([
  ['a message pattern', (): Promise<Running> => startRpc(Messages)],
  ['a gateway', (): Promise<Running> => startWs(Gateway)],
] as const)('a stream of %s', (_name, start) => {
  it('is refused, as nobody would read it, unless it is an Observable', async () => {
    log.length = 0;
    const { call, locks, close } = await start();
    for (const name of ['generator', 'web']) {
      expect(await call(name, '1')).toMatchObject({ error: { message: 'Internal server error' } });
      await until(async () => (await locks.inspect('k:1')) === null);
    }
    expect(log).toEqual(['cancelled']);
    expect(await call('observable', '1')).toEqual({ value: '1' });
    await close();
  });
});
