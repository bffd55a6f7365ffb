import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  Injectable,
  Post,
  Scope,
  UsePipes,
  type INestApplication,
  type PipeTransform,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR, APP_PIPE } from '@nestjs/core';
import { EventPattern, MessagePattern, Payload } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import {
  CurrentLock,
  DistributedLockModule,
  Locked,
  LockedInterceptor,
  LockService,
  type Lock,
} from 'nestjs-distributed-lock';
import { outcomesOf } from '../../support/events.js';
import { once } from './support.js';
import { Wire } from '../../support/wire.js';

/** Marks what has gone over it. */
class Through implements PipeTransform {
  constructor(private readonly name: string) {}

  transform(value: unknown): unknown {
    return typeof value === 'string' ? `${value}-${this.name}` : value;
  }
}

interface Answer {
  readonly id: string;
  readonly key: string;
}

const answer = (id: string, lock?: Lock): Answer => ({ id, key: lock?.key ?? '' });

@Controller()
@UsePipes(new Through('class'))
class Messages {
  @MessagePattern('sell')
  @Locked('goods:<id>')
  async sell(@Payload('id', new Through('own')) id: string, @CurrentLock() lock?: Lock): Promise<Answer> {
    return answer(id, lock);
  }
}

@Controller({ scope: Scope.REQUEST })
@UsePipes(new Through('class'))
class ScopedMessages {
  @MessagePattern('sell')
  @Locked('goods:<id>')
  async sell(@Payload('id', new Through('own')) id: string, @CurrentLock() lock?: Lock): Promise<Answer> {
    return answer(id, lock);
  }
}

@Injectable({ scope: Scope.REQUEST })
class ScopedPipe extends Through {
  constructor() {
    super('scoped');
  }
}

let app: INestApplication | undefined;

async function appWith(cls: Type<unknown>, providers: Provider[] = []): Promise<INestApplication> {
  const module = await Test.createTestingModule({
    imports: [DistributedLockModule.forRoot({ logger: false })],
    controllers: [cls],
    providers,
  }).compile();
  app = module.createNestApplication({ logger: false });
  return app;
}

afterEach(() => app?.close());

describe.each([Messages, ScopedMessages])(
  'the key of a message handler of a hybrid application: %p',
  (cls) => {
    it('goes over no pipe of the HTTP side when the microservice does not inherit them', async () => {
      const { wire } = await connected(cls, {});
      expect(await wire.ask('sell', { id: '7' })).toEqual({ id: '7-class-own', key: 'goods:7-class-own' });
    });

    it('goes over the pipes of the application when the microservice inherits them', async () => {
      const { wire } = await connected(cls, { inheritAppConfig: true });
      expect(await wire.ask('sell', { id: '7' })).toEqual({
        id: '7-app-class-own',
        key: 'goods:7-app-class-own',
      });
    });

    it('is told apart for each of two microservices that serve one handler', async () => {
      const { wire, other } = await connected(cls, { inheritAppConfig: true });
      expect(await other.ask('sell', { id: '7' })).toMatchObject({ key: 'goods:7-class-own' });
      expect(await wire.ask('sell', { id: '7' })).toMatchObject({ key: 'goods:7-app-class-own' });
    });

    it('of other pipes than the handler is given is refused: the handler does not run under it', async () => {
      const it = await appWith(cls);
      const wire = new Wire();
      const microservice = it.connectMicroservice({ strategy: wire }, { deferInitialization: true });
      microservice.useGlobalPipes(new Through('microservice'));
      await it.init();
      await microservice.init();
      await expect(wire.ask('sell', { id: '7' })).rejects.toMatchObject({
        message: expect.stringContaining('Internal server error'),
      });
    });
  },
);

describe('a request-scoped pipe of the application', () => {
  it.each([
    { inheritAppConfig: true, key: 'goods:7-scoped-class-own' },
    { inheritAppConfig: false, key: 'goods:7-class-own' },
  ])('is gone over as Nest does it: $inheritAppConfig', async ({ inheritAppConfig, key }) => {
    const it = await appWith(ScopedMessages, [{ provide: APP_PIPE, useClass: ScopedPipe }]);
    const wire = new Wire();
    it.connectMicroservice({ strategy: wire }, { inheritAppConfig });
    await it.init();
    expect(await wire.ask('sell', { id: '7' })).toMatchObject({ key, id: key.slice('goods:'.length) });
  });
});

/** Each handler serves requests and messages. */
@Controller()
class Both {
  readonly events: Answer[] = [];

  @Post('sell')
  @MessagePattern('sell')
  @Locked('goods:<body.sku>')
  async sell(@Body() { sku }: { sku: string }, @CurrentLock() lock?: Lock): Promise<Answer> {
    return answer(sku, lock);
  }

  @EventPattern('sold')
  @Post('sold')
  @Locked('goods:<body.sku>')
  async sold(@Payload('sku') sku: unknown, @CurrentLock() lock?: unknown): Promise<Answer> {
    this.events.push(answer(sku as string, lock as Lock));
    return answer(sku as string, lock as Lock);
  }
}

describe.each([
  { inheritAppConfig: true, isGlobal: false },
  { inheritAppConfig: true, isGlobal: true },
  { inheritAppConfig: false, isGlobal: false },
  { inheritAppConfig: false, isGlobal: true },
])('a route that also serves messages: %j', ({ inheritAppConfig, isGlobal }) => {
  const open = async (): Promise<{ it: INestApplication; wire: Wire; outcomes: readonly string[] }> => {
    const it = await appWith(
      Both,
      isGlobal ? [{ provide: APP_INTERCEPTOR, useClass: LockedInterceptor }] : [],
    );
    const wire = new Wire();
    it.useGlobalPipes(new Through('app'));
    it.connectMicroservice({ strategy: wire }, { inheritAppConfig });
    await it.listen(0, '127.0.0.1');
    return { it, wire, outcomes: outcomesOf(it.get(LockService)) };
  };
  const post = async (it: INestApplication, route: string): Promise<unknown> => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${await it.getUrl()}/${route}`, {
      method: 'POST',
      headers,
      body: '{"sku":"1"}',
    });
    return response.json();
  };

  it('has the key of <body.sku> from the body of a request, and from the payload of a message', async () => {
    const { it, wire, outcomes } = await open();
    expect(await post(it, 'sell')).toEqual({ id: '1', key: 'goods:1' });
    expect(await wire.ask('sell', { sku: '2' })).toEqual({ id: '2', key: 'goods:2' });
    expect(outcomes).toEqual([...once('goods:1'), ...once('goods:2')]);
  });

  it('has the key through the pipes that the request or the event goes through', async () => {
    const { it, wire, outcomes } = await open();
    const [request, event] = ['1-app', inheritAppConfig ? '2-app' : '2'];
    expect(await post(it, 'sold')).toEqual({ id: request, key: `goods:${request}` });
    await wire.ask('sold', { sku: '2' });
    expect(it.get(Both).events.at(-1)).toEqual({ id: event, key: `goods:${event}` });
    expect(outcomes).toEqual([...once(`goods:${request}`), ...once(`goods:${event}`)]);
  });
});

it('a route that also serves messages refuses a message that goes through pipes which nobody shows', async () => {
  const it = await appWith(Both);
  const wire = new Wire();
  const microservice = it.connectMicroservice({ strategy: wire }, { deferInitialization: true });
  microservice.useGlobalPipes(new Through('microservice'));
  await it.init();
  await microservice.init();
  await expect(wire.ask('sold', { sku: '2' })).rejects.toMatchObject({
    message: expect.stringContaining('Internal server error'),
  });
});

/** One microservice connected as asked for, and another that inherits nothing. */
async function connected(
  cls: Type<unknown>,
  options: { readonly inheritAppConfig?: boolean },
): Promise<{ wire: Wire; other: Wire }> {
  const it = await appWith(cls);
  const [wire, other] = [new Wire(), new Wire()];
  it.useGlobalPipes(new Through('app'));
  it.connectMicroservice({ strategy: wire }, options);
  it.connectMicroservice({ strategy: other });
  await it.init();
  return { wire, other };
}
