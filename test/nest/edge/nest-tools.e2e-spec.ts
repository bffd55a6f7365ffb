import { PassThrough } from 'node:stream';
import { inspect } from 'node:util';
import { expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Module, Param } from '@nestjs/common';
import { NestFactory, repl, SerializedGraph } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  DistributedLockModule,
  getLockServiceToken,
  Locked,
  LockService,
  memoryStore,
} from 'nestjs-distributed-lock';
import { LeaderModule } from 'nestjs-distributed-lock/leader';
import { TestLocks } from 'nestjs-distributed-lock/testing';
import { lastValueFrom } from 'rxjs';

@Injectable()
class Orders {
  @Locked('order:<id>')
  async pay(id: string): Promise<string> {
    return `paid ${id}`;
  }

  @Locked('job:<id>', { name: 'jobs' })
  async queue(id: string): Promise<string> {
    return `queued ${id}`;
  }
}

@Controller()
class Shop {
  @Get(':id')
  @Locked('shop:<id>')
  async read(@Param('id') id: string): Promise<string> {
    return id;
  }
}

@Module({
  imports: [
    DistributedLockModule.forRoot(),
    DistributedLockModule.forRoot({ name: 'jobs' }),
    LeaderModule.forFeature('poller'),
  ],
  providers: [Orders],
  controllers: [Shop],
})
class AppModule {}

it('an application with the snapshot of the devtools boots, and its graph has the services of the locks', async () => {
  const app = await NestFactory.create(AppModule, { snapshot: true, logger: false });
  await app.init();
  expect(await app.get(Orders).pay('1')).toBe('paid 1');
  const { nodes } = JSON.parse(app.get(SerializedGraph).toString()) as {
    readonly nodes: Readonly<Record<string, { readonly label: string }>>;
  };
  const labels = Object.values(nodes).map(({ label }) => label);
  expect(labels).toEqual(expect.arrayContaining(['DistributedLockModule', 'LockService', 'Orders']));
  await app.close();
});

it('the REPL boots an application, and offers the service and providers with locked methods', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const server = await repl(AppModule, { input, output, terminal: false });
  // What a line that is typed there sees.
  const { get, Orders: orders, LockService: service } = server.context as Readonly<Record<string, unknown>>;
  const find = get as <T>(token: unknown) => T;
  expect(await find<Orders>(orders).pay('1')).toBe('paid 1');
  expect(await find<LockService>(service).withLock('k', (lock) => lock.key)).toBe('k');
  expect(inspect(find(service))).toContain("name: 'default'");
  const closed = lastValueFrom(find<LockService>(service).events$, { defaultValue: undefined });
  server.close();
  await closed;
});

it('a registration with a name has other locks by overrideProvider(getLockServiceToken(name))', async () => {
  await using jobs = new TestLocks({ name: 'jobs' });
  const module = await Test.createTestingModule({ imports: [AppModule] })
    .overrideProvider(getLockServiceToken('jobs'))
    .useValue(jobs)
    .compile();
  await module.init();
  const orders = module.get(Orders);
  expect([await orders.pay('1'), await orders.queue('2')]).toEqual(['paid 1', 'queued 2']);
  expect(jobs.acquired).toEqual(['job:2']);
  await module.close();
});

it('a module of the application that imports the locks is replaced by overrideModule', async () => {
  await using locks = new TestLocks();
  @Module({ imports: [DistributedLockModule.forRoot()] })
  class LocksModule {}
  const provider = { provide: getLockServiceToken(), useValue: locks };
  @Module({ providers: [provider], exports: [provider] })
  class TestLocksModule {}
  @Module({ imports: [LocksModule], providers: [PaidOrders] })
  class Root {}
  const module = await Test.createTestingModule({ imports: [Root] })
    .overrideModule(LocksModule)
    .useModule(TestLocksModule)
    .compile();
  await module.init();
  expect([await module.get(PaidOrders).pay('1'), locks.acquired]).toEqual(['paid 1', ['order:1']]);
  await module.close();
});

@Injectable()
class PaidOrders {
  @Locked('order:<id>')
  async pay(id: string): Promise<string> {
    return `paid ${id}`;
  }
}

it('forRootAsync takes what asProvider() of a configuration namespace returns', async () => {
  // registerAs of @nestjs/config 12.0.1 returns this shape; the package is too large to be installed for one test.
  const config = {
    provide: 'CONFIGURATION(locks)',
    useFactory: () => ({ store: memoryStore(), waitMs: 3000 }),
  };
  @Module({ providers: [config], exports: [config.provide] })
  class ConfigFeature {}
  const asProvider = {
    imports: [{ module: ConfigFeature }],
    useFactory: (options: ReturnType<typeof config.useFactory>) => options,
    inject: [config.provide],
  };
  const module = await Test.createTestingModule({
    imports: [DistributedLockModule.forRootAsync(asProvider)],
  }).compile();
  await module.init();
  expect(module.get(LockService).options.waitMs).toBe(3000);
  await module.close();
});
