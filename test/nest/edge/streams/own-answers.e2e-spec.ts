import type { EventEmitter } from 'node:events';
import { Readable, pipeline, type Writable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Head,
  HttpException,
  Inject,
  Next,
  Param,
  Req,
  Res,
  Response,
} from '@nestjs/common';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { until } from '#until';
import { warningsDuring } from '../../../support/warnings.js';
import { Stage } from '../../integration/stage.js';
import { HTTP_SERVERS, startHttp, type HttpApp } from '../http-versions.js';

interface Raw extends Writable {
  /** On HTTP/2. */
  readonly stream?: EventEmitter;
  writeHead(status: number, headers: Readonly<Record<string, string>>): this;
}

/** The response of Express, or the reply of Fastify. */
type Reply = Raw & {
  readonly raw?: Raw;
  send(body: unknown): unknown;
  hijack?(): void;
};

/** Sends the text in parts after the handler has returned, each once the test lets it. */
type Way = (reply: Reply, parts: () => AsyncGenerator<string>) => void;

const rawOf = (reply: Reply): Raw => {
  reply.hijack?.();
  return reply.raw ?? reply;
};
const read = (parts: () => AsyncGenerator<string>): Readable => Readable.from(parts(), { objectMode: false });

const WAYS: Readonly<Record<string, Way>> = {
  'piped into the response': (reply, parts) => {
    const [raw, source] = [rawOf(reply), read(parts)];
    source.on('error', () => raw.destroy());
    source.pipe(raw);
  },
  'by a pipeline': (reply, parts) => pipeline(read(parts), rawOf(reply), () => undefined),
  'by hand, as events': (reply, parts) => {
    const raw = rawOf(reply);
    raw.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = async (): Promise<void> => {
      for await (const part of parts()) raw.write(part);
    };
    send().then(
      () => raw.end(),
      () => raw.destroy(),
    );
  },
  'later, all at once': (reply, parts) => {
    const send = async (): Promise<void> => {
      let text = '';
      for await (const part of parts()) text += part;
      reply.send(text);
    };
    send().catch(() => rawOf(reply).destroy());
  },
  'as a stream, by reply.send': (reply, parts) => void reply.send(read(parts)),
};

/** Over TLS the response is of the same class as without, so that two ways stand for all. */
const waysOn = (server: string): string[] => {
  if (HTTP_SERVERS[server]?.isSecure) return ['by hand, as events', 'later, all at once'];
  return Object.keys(WAYS).filter((way) => server.startsWith('Fastify') || !way.includes('reply.send'));
};

/** How the handler gets at the response. A reply that was taken over sends no body by itself. */
const routesOn = (server: string, way: string): string[] => {
  if (server.startsWith('Express')) return ['res', 'response', 'request'];
  const sends = ['later, all at once', 'as a stream, by reply.send'].includes(way);
  return sends ? ['res', 'response'] : ['res', 'response', 'passed-through'];
};

interface Named {
  readonly way: string;
  readonly ending: 'sent' | 'failed';
}

@Controller()
class Answers {
  constructor(
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  private async *parts(ending: Named['ending']): AsyncGenerator<string> {
    yield 'one ';
    await this.stage.reach('part');
    if (ending === 'failed') throw new Error('the source failed');
    yield 'two';
  }

  private answer(reply: Reply, { way, ending }: Named): void {
    this.watch(reply);
    WAYS[way]?.(reply, () => this.parts(ending));
    this.stage.note(`returned under ${this.locks.current()?.key}`);
  }

  private watch(reply: Reply): void {
    const raw: Raw = reply.raw ?? reply;
    const over = (): void => {
      if (!this.stage.log.includes('over')) this.stage.note('over');
    };
    for (const event of ['finish', 'close']) (raw.stream ?? raw).on(event, over);
  }

  @Get('res/:way/:ending')
  @Locked('own')
  async res(@Param() params: Named, @Res() reply: Reply): Promise<void> {
    this.answer(reply, params);
  }

  @Get('response/:way/:ending')
  @(Locked('own') as MethodDecorator)
  response(@Param() params: Named, @Response() reply: Reply): void {
    this.answer(reply, params);
  }

  /** Nest does not know, and has nothing to send on Fastify any more. */
  @Get('passed-through/:way/:ending')
  @Locked('own')
  async passedThrough(@Param() params: Named, @Res({ passthrough: true }) reply: Reply): Promise<void> {
    reply.hijack?.();
    this.answer(reply, params);
  }

  @Get('request/:way/:ending')
  @Locked('own')
  async request(
    @Param() params: Named,
    @Req() request: { readonly res: Reply },
    @Next() _next: unknown,
  ): Promise<void> {
    this.answer(request.res, params);
  }

  @Get('refused')
  @Locked('own')
  async refused(@Res() reply: Reply): Promise<void> {
    this.watch(reply);
    throw new HttpException('sold out', 410);
  }

  @Get('broken')
  @Locked('own')
  async broken(@Res() reply: Reply): Promise<void> {
    this.watch(reply);
    const raw = rawOf(reply);
    raw.writeHead(200, { 'content-type': 'text/plain' });
    raw.write('one ');
    this.stage.reach('part').then(
      () => raw.end('two'),
      () => undefined,
    );
    throw new Error('after the head');
  }

  @Head('head')
  @Locked('own')
  async head(@Res() reply: Reply): Promise<void> {
    this.watch(reply);
    await this.stage.reach('part');
    reply.send('');
  }

  /** Goes on when its answer is over. */
  @Get('early')
  @Locked('own')
  async early(@Res() reply: Reply): Promise<void> {
    this.watch(reply);
    reply.send('one two');
    await this.stage.reach('part');
  }

  @Get('awaited/:way/:ending')
  @Locked('own')
  async awaited(@Param() params: Named, @Res() reply: Reply): Promise<void> {
    this.answer(reply, params);
    await this.stage.reach('end');
  }

  @Get('ignored')
  @Locked('own', { onLost: 'ignore' })
  async ignored(@Res() reply: Reply): Promise<void> {
    this.answer(reply, { way: 'by hand, as events', ending: 'sent' });
  }

  @Get('waiting')
  @Locked('own')
  async waiting(): Promise<string> {
    this.stage.note('ran');
    return 'ran';
  }
}

const SERVERS = Object.keys(HTTP_SERVERS);

describe.each(SERVERS)('on %s', (server) => {
  let http: HttpApp;
  let log: string[];
  let isReleased: () => Promise<void>;

  beforeAll(async () => {
    http = await startHttp(server, { controllers: [Answers] });
    http.locks.events$.subscribe(({ type }) => {
      if (type === 'released') http.stage.note('released');
    });
    log = http.stage.log as string[];
    isReleased = () => until(() => http.isFree('own'));
  });
  beforeEach(() => {
    log.length = 0;
  });
  afterEach(() => {
    if (http.stage.isAt('part')) http.stage.go('part');
  });
  afterAll(() => http.close());

  describe.each(waysOn(server))('an answer that a locked handler sends %s', (way) => {
    const path = (route: string, ending: Named['ending']): string =>
      `/${route}/${encodeURIComponent(way)}/${ending}`;

    it.each(routesOn(server, way))('holds the lock until it was sent: %s', async (route) => {
      const exchange = http.ask(path(route, 'sent'));
      await until(() => http.stage.isAt('part'));
      await pause(10);
      expect(await http.isFree('own')).toBe(false);
      http.stage.go('part');
      await exchange.ended();
      expect([exchange.status, exchange.received, exchange.end]).toEqual([200, 'one two', 'complete']);
      await isReleased();
      expect(log).toContain('returned under own');
      expect(log.slice(-3)).toEqual(['part left', 'over', 'released']);
    });

    it('holds the lock until its client has left', async () => {
      const exchange = http.ask(path('res', 'sent'));
      await until(() => http.stage.isAt('part'));
      await pause(10);
      expect(await http.isFree('own')).toBe(false);
      exchange.leave();
      await isReleased();
      expect(log.slice(-2)).toEqual(['over', 'released']);
      http.stage.go('part');
    });

    it('holds the lock until its source has failed', async () => {
      const exchange = http.ask(path('res', 'failed'));
      await until(() => http.stage.isAt('part'));
      await pause(10);
      expect(await http.isFree('own')).toBe(false);
      http.stage.go('part');
      await exchange.ended();
      await isReleased();
      expect(log.slice(-2)).toEqual(['over', 'released']);
    });

    it('breaks off when the lock is lost', async () => {
      const exchange = http.ask(path('res', 'sent'));
      await until(() => http.stage.isAt('part') && log.includes('returned under own'));
      await http.locks.forceRelease('own');
      await exchange.ended();
      expect(exchange.end).toBe('broken');
      await isReleased();
      http.stage.go('part');
    });

    it('breaks off when the lock is lost while its handler awaits the end', async () => {
      const exchange = http.ask(path('awaited', 'sent'));
      await until(() => http.stage.isAt('part') && http.stage.isAt('end'));
      await http.locks.forceRelease('own');
      await exchange.ended();
      // An answer that was not begun is a complete one: 503.
      expect([exchange.end, exchange.status]).toEqual(
        way.startsWith('later') ? ['complete', 503] : ['broken', 200],
      );
      http.stage.go('part');
      http.stage.go('end');
      await isReleased();
    });
  });

  it('an answer of a handler that ignores a loss goes on', async () => {
    const exchange = http.ask('/ignored');
    await until(() => http.stage.isAt('part') && log.includes('returned under own'));
    await http.locks.forceRelease('own');
    http.stage.go('part');
    expect([(await exchange.ended()).end, exchange.received]).toEqual(['complete', 'one two']);
  });

  it('an error of a handler that would answer itself reaches the client', async () => {
    const exchange = await http.ask('/refused').ended();
    expect([exchange.status, exchange.received]).toEqual([410, expect.stringContaining('sold out')]);
    await isReleased();
  });

  it('an error of a handler that has begun its answer ends both', async () => {
    await http.ask('/broken').ended();
    await isReleased();
    expect(log.slice(-2)).toEqual(['over', 'released']);
    http.stage.go('part');
  });

  it('an answer to HEAD holds the lock until it was sent', async () => {
    const exchange = http.ask('/head', 'HEAD');
    await until(() => http.stage.isAt('part'));
    expect(await http.isFree('own')).toBe(false);
    http.stage.go('part');
    expect((await exchange.ended()).status).toBe(200);
    await isReleased();
  });

  it('a handler that goes on after its answer keeps the lock until it has returned', async () => {
    await http.ask('/early').ended();
    await until(() => http.stage.isAt('part'));
    expect([log.includes('over'), await http.isFree('own')]).toEqual([true, false]);
    http.stage.go('part');
    await isReleased();
  });

  it('a client that leaves the queue takes its call along, which never runs', async () => {
    const mine = await http.locks.acquire('own');
    const waits: string[] = [];
    const events = http.locks.events$.subscribe(({ type }) => waits.push(type));
    const gone = http.ask('/waiting');
    await until(() => waits.includes('asked'));
    gone.leave();
    await until(() => waits.includes('abandoned'));
    const stays = http.ask('/waiting');
    await mine.release();
    expect((await stays.ended()).received).toBe('ran');
    await isReleased();
    expect(log.filter((it) => it === 'ran')).toEqual(['ran']);
    events.unsubscribe();
  });

  it('answers on one connection leave no listener behind', async () => {
    const warnings = await warningsDuring(async () => {
      const many = Array.from({ length: 15 }, () => http.ask('/waiting'));
      for (const exchange of many) expect((await exchange.ended()).received).toBe('ran');
      await isReleased();
    });
    expect(warnings).toEqual([]);
  });
});
