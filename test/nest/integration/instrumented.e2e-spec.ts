import { AsyncResource } from 'node:async_hooks';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import {
  Controller,
  Get,
  Injectable,
  Module,
  Param,
  StreamableFile,
  type ModuleMetadata,
  type NestApplicationOptions,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { createObserveModule } from '@nestjs/observe';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { DistributedLockModule, LockService, Locked, getLockServiceToken } from 'nestjs-distributed-lock';
import { failureOf } from '../../support/lock-services.js';
import { proxied } from '../../support/proxied-providers.js';
import { until } from '#until';

// The first tests load the adapters and the instrumentation, which takes seconds.
jest.setTimeout(30_000);

/** Made where no lock is held. */
const outside = new AsyncResource('outside');

@Injectable()
class Orders {
  constructor(private readonly locks: LockService) {}

  @Locked('order:<id>', { waitMs: 100 })
  async place(id: string): Promise<unknown> {
    const { key } = this.locks.assertHeld(`order:${id}`);
    const again = await this.locks.withLock(key, { waitMs: 100 }, (lock) => lock.fencingToken);
    return { current: this.locks.current()?.key, again, checked: await this.check(id) };
  }

  @Locked('order:<id>', { waitMs: 100 })
  async check(id: string): Promise<string> {
    return this.locks.assertHeld(`order:${id}`).key;
  }

  /** Holds its lock until the last line was read. */
  @Locked('lines:<id>', { waitMs: 100 })
  async *lines(id: string): AsyncGenerator<string> {
    yield this.locks.assertHeld(`lines:${id}`).key;
    const other = await failureOf(detached(() => this.locks.acquire(`lines:${id}`, { waitMs: 0 })));
    yield (other as { code?: string }).code ?? 'free';
  }

  /** Two flows that take two keys in opposite orders. */
  async crossed(): Promise<unknown> {
    let met = (): void => undefined;
    const both = new Promise<void>((resolve) => (met = resolve));
    const flow = (first: string, second: string, start: () => unknown) =>
      this.locks.withLock(first, async () => {
        await start();
        return this.locks.withLock(second, { waitMs: 2000 }, () => 'done');
      });
    const one = flow('a', 'b', () => both);
    const two = flow('b', 'a', met);
    const failures = await Promise.all([failureOf(one), failureOf(two)]);
    return failures.map((failure) => (failure as { code?: string }).code ?? 'done');
  }
}

/** Made by a factory: Nest injects no service into it. */
class Shop {
  @Locked('shop', { waitMs: 100 })
  async open(): Promise<string> {
    return 'open';
  }
}

@Controller()
class Desk {
  constructor(
    private readonly orders: Orders,
    private readonly shop: Shop,
  ) {}

  @Locked('desk:<id>')
  @Get('place/:id')
  async place(@Param('id') id: string): Promise<unknown> {
    return this.orders.place(id);
  }

  @Get('lines/:id')
  async lines(@Param('id') id: string): Promise<string[]> {
    const lines = [];
    for await (const line of this.orders.lines(id)) lines.push(line);
    return lines;
  }

  /** The lock of a handler is held until its stream has been sent. */
  @Locked('desk:<id>')
  @Get('file/:id')
  async file(@Param('id') id: string): Promise<StreamableFile> {
    const { orders } = this;
    return new StreamableFile(
      Readable.from(
        (async function* () {
          for await (const line of orders.lines(id)) yield `${line} `;
        })(),
      ),
    );
  }

  @Get('crossed')
  crossed(): Promise<unknown> {
    return this.orders.crossed();
  }

  @Get('shop')
  open(): Promise<string> {
    return this.shop.open();
  }
}

/** In a flow of its own: under a lock of its caller a call would share it. */
function detached<T>(work: () => Promise<T>): Promise<T> {
  return outside.runInAsyncScope(work);
}

/** As those of nestjs-cls: outside of a request it throws at whatever it is asked for, but by Nest itself. */
const inRequestsOnly: object = new Proxy(
  {},
  {
    get(_, name) {
      if (typeof name === 'symbol' || /^(constructor|then|on[A-Z]|before[A-Z])/.test(name)) return undefined;
      throw new Error('There is no request.');
    },
  },
);

const METADATA: ModuleMetadata = {
  imports: [
    DistributedLockModule.forRoot({ logger: false }),
    DistributedLockModule.forRoot({ name: 'audit', logger: false }),
  ],
  controllers: [Desk],
  providers: [
    Orders,
    { provide: Shop, useFactory: () => new Shop() },
    { provide: 'cls', useFactory: () => inRequestsOnly },
  ],
};

/** Takes what the agent of @nestjs/observe sends. */
async function sink() {
  let bytes = 0;
  const server = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => (bytes += chunk.length));
    request.on('end', () => response.end('{}'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.close(), bytes: () => bytes };
}

const apps: NestExpressApplication[] = [];
type Options = Pick<NestApplicationOptions, 'instrument' | 'snapshot'>;

async function start(options: Options, more: ModuleMetadata['imports'] = []): Promise<string> {
  @Module({ ...METADATA, imports: [...(METADATA.imports ?? []), ...more] })
  class App {}
  const app = await NestFactory.create<NestExpressApplication>(App, {
    logger: false,
    abortOnError: false,
    ...options,
  });
  apps.push(app);
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}

async function get(url: string): Promise<unknown> {
  const response = await fetch(url);
  const text = await response.text();
  return response.ok
    ? (JSON.parse(text.startsWith('{') || text.startsWith('[') ? text : `"${text}"`) as unknown)
    : text;
}

/** What a request finds, and what it must. */
async function findings(url: string): Promise<unknown> {
  return {
    placed: await get(`${url}/place/1`),
    crossed: await get(`${url}/crossed`),
    shop: await get(`${url}/shop`),
    lines: await get(`${url}/lines/1`),
    file: await get(`${url}/file/1`),
    // Both streams have given their locks back.
    again: await get(`${url}/file/1`),
  };
}
const RIGHT = {
  placed: { current: 'order:1', again: expect.any(Number), checked: 'order:1' },
  crossed: expect.arrayContaining(['LOCK_DEADLOCK']),
  shop: 'open',
  lines: ['lines:1', 'LOCK_WAIT_TIMEOUT'],
  file: 'lines:1 LOCK_WAIT_TIMEOUT ',
  again: 'lines:1 LOCK_WAIT_TIMEOUT ',
};

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

describe('an application with an instanceDecorator', () => {
  it('re-entrancy, current(), assertHeld() and deadlock detection survive a Proxy around every provider', async () => {
    expect(await findings(await start({ instrument: { instanceDecorator: proxied } }))).toEqual(RIGHT);
  });

  it('an object that a factory has made uses the locks of its own application, also through a Proxy', async () => {
    const [one, two] = [
      await start({ instrument: { instanceDecorator: proxied } }),
      await start({ instrument: { instanceDecorator: proxied } }),
    ];
    const lock = await apps[0]!.get(LockService).acquire('shop');
    // Once with the Proxy as its `this`, and once with what is inside.
    for (let times = 0; times < 2; times++) {
      expect(await get(`${one}/shop`)).toContain('423');
      expect(await get(`${two}/shop`)).toBe('open');
    }
    await lock.release();
  });

  it('re-entrancy, current(), assertHeld() and deadlock detection survive the tracing of @nestjs/observe', async () => {
    const collector = await sink();
    const { ObserveModule, ObserveInstrument } = createObserveModule();
    const observe = ObserveModule.forRoot({
      appKey: 'key',
      appSecret: 'secret',
      serviceId: 'test',
      endpoint: collector.url,
      flushInterval: 1000,
      runtimeMetrics: false,
    });
    try {
      const url = await start({ instrument: ObserveInstrument }, [observe]);
      expect(await findings(url)).toEqual(RIGHT);
      expect(await Promise.all([findings(url), findings(url)])).toEqual([RIGHT, RIGHT]);
      await until(() => collector.bytes() > 0);
    } finally {
      await Promise.all(apps.splice(0).map((app) => app.close()));
      collector.close();
    }
  }, 30_000);
});

describe('an application with the snapshot of the DevTools', () => {
  it.each([false, true])('has its registrations, and its locks; with a Proxy: %s', async (isProxied) => {
    const instrument = isProxied ? { instrument: { instanceDecorator: proxied } } : {};
    expect(await findings(await start({ snapshot: true, ...instrument }))).toEqual(RIGHT);
    const [app] = apps as [NestExpressApplication];
    const services = [app.get(LockService), app.get<LockService>(getLockServiceToken('audit'))];
    expect(services.map(({ name }) => name)).toEqual(['default', 'audit']);
  });
});
