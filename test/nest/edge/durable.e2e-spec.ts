import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  type INestApplication,
  Inject,
  Injectable,
  Module,
  type ModuleMetadata,
  Param,
  type PipeTransform,
  Scope,
} from '@nestjs/common';
import {
  type ContextId,
  ContextIdFactory,
  type ContextIdStrategy,
  createContextId,
  type HostComponentInfo,
  NestFactory,
  REQUEST,
} from '@nestjs/core';
import {
  CurrentLock,
  DistributedLockModule,
  type Lock,
  Locked,
  LockedInterceptor,
  LockService,
} from 'nestjs-distributed-lock';
import { until } from '#until';
import { startApp, type StartedApp } from '../integration/stage.js';

interface Tenant {
  readonly tenant: string;
}

/** One tree of providers for each tenant, as the documentation of Nest has it. */
class ByTenant implements ContextIdStrategy {
  private readonly trees = new Map<string, ContextId>();

  attach(contextId: ContextId, { headers }: { readonly headers: Readonly<Record<string, string>> }) {
    const tenant = headers['x-tenant'] ?? 'nobody';
    const tree = this.trees.get(tenant) ?? createContextId();
    this.trees.set(tenant, tree);
    return {
      resolve: (info: HostComponentInfo) => (info.isTreeDurable ? tree : contextId),
      payload: { tenant },
    };
  }
}

/** Tenants whose trees were built. */
const built: string[] = [];

@Injectable({ scope: Scope.REQUEST, durable: true })
class Orders {
  constructor(@Inject(REQUEST) private readonly request: Tenant) {
    built.push(request.tenant);
  }

  @Locked('order:<id>', { waitMs: 0 })
  async pay(id: string, @CurrentLock() lock?: Lock): Promise<string> {
    return `${this.request.tenant} under ${lock?.key} ${id}`;
  }
}

@Injectable({ scope: Scope.REQUEST, durable: true })
class OfTenant implements PipeTransform<string, string> {
  constructor(@Inject(REQUEST) private readonly request: Tenant) {
    built.push(`pipe of ${request.tenant}`);
  }

  transform(value: string): string {
    return `${this.request.tenant}-${value}`;
  }
}

@Controller()
class Handlers {
  constructor(
    private readonly orders: Orders,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  @Get('provider/:id')
  provider(@Param('id') id: string): Promise<string> {
    return this.orders.pay(id);
  }

  @Get('handler/:id')
  @Locked('handler:<id>', { waitMs: 0 })
  async handler(@Param('id') id: string): Promise<string> {
    return `${await this.orders.pay(id)} inside ${this.locks.current()?.key}`;
  }

  @Get('piped/:id')
  @Locked('piped:<id>')
  async piped(@Param('id', OfTenant) id: string, @CurrentLock() lock: Lock): Promise<string> {
    return `${id} under ${lock.key}`;
  }
}

describe('durable providers', () => {
  let started: StartedApp;
  const ask = async (path: string, tenant: string): Promise<string> =>
    (await started.fetch(path, { headers: { 'x-tenant': tenant } })).text();

  beforeAll(async () => {
    ContextIdFactory.apply(new ByTenant());
    started = await startApp('express', { controllers: [Handlers], providers: [Orders] });
  });
  afterAll(async () => {
    Reflect.set(ContextIdFactory, 'strategy', undefined);
    await started.app.close();
  });

  it('are locked, and are built once for each tenant as without a lock', async () => {
    expect(await ask('/provider/1', 'red')).toBe('red under order:1 1');
    expect(await ask('/provider/2', 'red')).toBe('red under order:2 2');
    expect(await ask('/provider/1', 'blue')).toBe('blue under order:1 1');
    expect(built.filter((what) => !what.startsWith('pipe'))).toEqual(['red', 'blue']);
  });

  it('of two tenants share the locks of the application', async () => {
    await started.locks.withLock('order:7', async () => {
      const answers = await Promise.all(
        ['red', 'blue'].map((tenant) => started.fetch('/provider/7', { headers: { 'x-tenant': tenant } })),
      );
      expect(answers.map(({ status }) => status)).toEqual([423, 423]);
    });
  });

  it('are reached from a locked handler, which gives its lock back', async () => {
    expect(await ask('/handler/3', 'red')).toBe('red under order:3 3 inside handler:3');
    await until(async () => (await started.locks.inspect('handler:3')) === null);
  });

  it('as pipes make the key as they make the argument, each for its tenant', async () => {
    expect(await ask('/piped/1', 'red')).toBe('red-1 under piped:red-1');
    expect(await ask('/piped/1', 'blue')).toBe('blue-1 under piped:blue-1');
    expect(await ask('/piped/2', 'blue')).toBe('blue-2 under piped:blue-2');
    expect(built.filter((what) => what.startsWith('pipe')).sort()).toEqual(['pipe of blue', 'pipe of red']);
  });
});

@Controller('prices')
class Prices {
  constructor(@Inject('shop') private readonly shop: string) {}

  @Get(':id')
  @Locked('price:<id>', {
    waitMs: 0,
    onBusy(this: Prices, _busy, id: string) {
      return `${this.shop} asks you to come back for ${id}`;
    },
  })
  async price(@Param('id') id: string): Promise<string> {
    return id;
  }
}

/** The objects of `Visits` that were made. */
let made = 0;

@Injectable({ scope: Scope.REQUEST })
class Visitor {
  constructor(@Inject(REQUEST) readonly request: { readonly url: string }) {}
}

@Controller('visits')
class Visits {
  private readonly number = ++made;

  constructor(@Inject(Visitor) private readonly visitor: Visitor) {}

  @Get(':id')
  @Locked('visit:<id>', {
    waitMs: 0,
    async onBusy(this: Visits) {
      return `${this.visitor.request.url} ${this.number}`;
    },
  })
  async visit(@Param('id') id: string): Promise<string> {
    return id;
  }
}

/** A module with a `Prices` of its own, at a path of its own. */
function shop(name: string): NonNullable<ModuleMetadata['imports']>[number] {
  @Module({ controllers: [Prices], providers: [{ provide: 'shop', useValue: name }] })
  class Shop {}
  return Shop;
}

let app: INestApplication | undefined;

async function start(metadata: ModuleMetadata, isGlobal = false) {
  @Module({
    ...metadata,
    imports: [DistributedLockModule.forRoot({ logger: false }), ...(metadata.imports ?? [])],
  })
  class Root {}
  app = await NestFactory.create(Root, { logger: false });
  if (isGlobal) app.useGlobalInterceptors(await app.resolve(LockedInterceptor));
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const text = async (path: string): Promise<string> => (await fetch(`${url}${path}`)).text();
  return { text, locks: app.get(LockService) };
}

afterEach(() => app?.close());

describe('`this` of onBusy on a handler', () => {
  it('is the controller', async () => {
    const { text, locks } = await start({ imports: [shop('Ann')] });
    const lock = await locks.acquire('price:7');
    expect(await text('/prices/7')).toBe('Ann asks you to come back for 7');
    await lock.release();
    expect(await text('/prices/7')).toBe('7');
  });

  it('is the controller of the module whose route was asked, of two that have the same class', async () => {
    const { text, locks } = await start({ imports: [shop('Ann'), shop('Bob')] });
    const lock = await locks.acquire('price:7');
    expect(await text('/prices/7')).toBe('Ann asks you to come back for 7');
    await lock.release();
  });

  it('is the controller under a global interceptor of locks as well', async () => {
    const { text, locks } = await start({ imports: [shop('Ann')], providers: [LockedInterceptor] }, true);
    const lock = await locks.acquire('price:7');
    expect(await text('/prices/7')).toBe('Ann asks you to come back for 7');
    await lock.release();
  });

  it('is the request-scoped controller that Nest has made for the request', async () => {
    const { text, locks } = await start({ controllers: [Visits], providers: [Visitor] });
    const lock = await locks.acquire('visit:7');
    const before = made;
    expect(await text('/visits/7')).toBe(`/visits/7 ${before + 1}`);
    expect(await text('/visits/7?again')).toBe(`/visits/7?again ${before + 2}`);
    expect(made).toBe(before + 2);
    await lock.release();
  });
});
