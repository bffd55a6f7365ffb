import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Module, Param, Scope } from '@nestjs/common';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { NestFactory, REQUEST } from '@nestjs/core';
import { DistributedLockModule, LockService, Locked, LockedInterceptor } from 'nestjs-distributed-lock';

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
