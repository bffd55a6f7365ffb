import { once as next } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  Catch,
  Controller,
  HttpException,
  Inject,
  Injectable,
  Logger,
  ParseIntPipe,
  SetMetadata,
  UseFilters,
  UseGuards,
  UseInterceptors,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestMicroservice,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Args, Context, GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import {
  ClientProxyFactory,
  Ctx,
  EventPattern,
  MessagePattern,
  Payload,
  RpcException,
  Transport as Wire,
  type ClientProxy,
} from '@nestjs/microservices';
import { WsAdapter } from '@nestjs/platform-ws';
import { Test } from '@nestjs/testing';
import {
  ConnectedSocket,
  MessageBody,
  SubscribeMessage,
  WebSocketGateway,
  WsException,
} from '@nestjs/websockets';
import {
  DistributedLockModule,
  LockService,
  LockStoreError,
  Locked,
  memoryStore,
  type LockStore,
  type LockStoreFactory,
} from 'nestjs-distributed-lock';
import { catchError, firstValueFrom, map, throwError, type Observable } from 'rxjs';
import { WebSocket } from 'ws';
import { Stage, startApp } from '../integration/stage.js';
import { until } from '../support/until.js';
import { PLACES, beside, once, record, type Place } from './support.js';

/** Its own type wants the data first. */
const onEvent = EventPattern as (topic: string) => MethodDecorator;

/** A store that has its own mind about one key. */
const fragileStore: LockStoreFactory = {
  create(context) {
    const store = memoryStore().create(context);
    const refuse: LockStore['acquire'] = async () => {
      throw new LockStoreError('secret-host is away', undefined, 'refused');
    };
    return new Proxy(store, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]): unknown =>
          name === 'acquire' && JSON.stringify(args).includes('down:')
            ? Reflect.apply(refuse, target, args)
            : Reflect.apply(value, target, args);
      },
    });
  },
};

class SoldOut extends Error {}

@Catch(SoldOut)
class SoldOutFilter implements ExceptionFilter {
  catch(_error: SoldOut, host: ArgumentsHost): unknown {
    const type = host.getType<string>();
    if (type === 'ws') {
      const message = JSON.stringify({ event: 'exception', data: { message: 'sold out' } });
      return host.switchToWs().getClient<WebSocket>().send(message);
    }
    if (type === 'rpc') return throwError(() => ({ message: 'sold out' }));
    throw new Error('sold out');
  }
}

@Injectable()
class RoleGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    return this.reflector.get('role', context.getHandler()) === 'buyer';
  }
}

@Injectable()
class Wrap implements NestInterceptor {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const key = this.locks.current()?.key;
    return next.handle().pipe(map((value: unknown) => `[${String(value)} in ${key}]`));
  }
}

/** As applications have it: it knows nothing but HTTP. */
@Catch(HttpException)
class HttpOnlyFilter implements ExceptionFilter<HttpException> {
  catch(error: HttpException, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<{ status(code: number): { json(it: unknown): void } }>();
    response.status(error.getStatus()).json(error.getResponse());
  }
}

/** What leaves the handler's own interceptors, for all handlers. */
const seen: unknown[] = [];

@Injectable()
class Witness implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      catchError((error: unknown) => {
        seen.push(error);
        return throwError(() => error);
      }),
    );
  }
}

interface Answer {
  readonly value?: unknown;
  readonly error?: { readonly message: string; readonly code?: string };
}

interface Running {
  readonly stage: Stage;
  readonly locks: LockService;
  readonly call: (name: string, id?: string) => Promise<Answer>;
  readonly close: () => Promise<void>;
}

interface Transport {
  /** What its own exceptions are, as interceptors outside see them. */
  readonly exception: Type<Error>;
  readonly forClass: ClassDecorator;
  readonly on: (name: string) => MethodDecorator;
  readonly id: (...pipes: unknown[]) => ParameterDecorator;
  readonly start: (handlers: Type<unknown>) => Promise<Running>;
}

const registration = (): ReturnType<typeof DistributedLockModule.forRoot> =>
  DistributedLockModule.forRoot({ store: fragileStore, shutdownGraceMs: 500 });

async function startRpc(handlers: Type<unknown>): Promise<Running & { readonly app: INestMicroservice }> {
  const module = await Test.createTestingModule({
    imports: [registration()],
    controllers: [handlers],
    providers: [Stage],
  }).compile();
  const app = module.createNestMicroservice({
    transport: Wire.TCP,
    options: { host: '127.0.0.1', port: 0 },
    logger: false,
  });
  app.useGlobalFilters(new HttpOnlyFilter());
  app.useGlobalInterceptors(new Witness());
  await app.listen();
  const { port } = app.unwrap<Server>().address() as AddressInfo;
  const client: ClientProxy = ClientProxyFactory.create({
    transport: Wire.TCP,
    options: { host: '127.0.0.1', port },
  });
  return {
    app,
    stage: app.get(Stage),
    locks: app.get(LockService),
    call: async (name, id) => {
      if (name.startsWith('event')) return { value: await firstValueFrom(client.emit(name, { id })) };
      return firstValueFrom(client.send<unknown>(name, { id })).then(
        (value) => ({ value }),
        (error: { message: string }) => ({ error }),
      );
    },
    close: async () => {
      await client.close();
      await app.close();
    },
  };
}

async function connect(url: string): Promise<WebSocket> {
  const socket = new WebSocket(url.replace('http', 'ws'));
  await next(socket, 'open');
  return socket;
}

async function startWs(handlers: Type<unknown>): Promise<Running & { readonly url: string }> {
  const { app, stage, locks } = await startApp(
    'express',
    { imports: [registration()], providers: [handlers] },
    (it) => {
      it.useWebSocketAdapter(new WsAdapter(it));
      it.useGlobalFilters(new HttpOnlyFilter());
      it.useGlobalInterceptors(new Witness());
    },
  );
  const url = await app.getUrl();
  return {
    url,
    stage,
    locks,
    call: async (event, id) => {
      const socket = await connect(url);
      socket.send(JSON.stringify({ event, data: { id } }));
      const [data] = (await next(socket, 'message')) as [Buffer];
      socket.close();
      const message = JSON.parse(data.toString()) as { event?: string; data: Answer['error'] };
      return message.event === 'exception' ? { error: message.data } : { value: message };
    },
    close: () => app.close(),
  };
}

async function startGraphql(handlers: Type<unknown>): Promise<Running & { readonly url: string }> {
  const { app, stage, locks } = await startApp(
    'express',
    {
      imports: [
        registration(),
        GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true }),
      ],
      providers: [handlers],
    },
    (it) => {
      it.useGlobalFilters(new HttpOnlyFilter());
      it.useGlobalInterceptors(new Witness());
    },
  );
  const url = `${await app.getUrl()}/graphql`;
  return {
    url,
    stage,
    locks,
    call: async (name, id = '1') => {
      const answer = await ask(url, `{ ${name}(id: ${JSON.stringify(id)}) }`);
      const { data, errors } = (await answer.json()) as {
        data?: Record<string, unknown>;
        errors?: { message: string; extensions: { code: string } }[];
      };
      const [error] = errors ?? [];
      if (!error) return { value: data?.[name] };
      return { error: { message: error.message, code: error.extensions.code } };
    },
    close: () => app.close(),
  };
}

const ask = (url: string, query: string, signal?: AbortSignal): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
    signal: signal ?? null,
  });

const TRANSPORTS: Readonly<Record<string, Transport>> = {
  'messages over TCP': {
    exception: RpcException,
    forClass: Controller(),
    on: (name) => (name.startsWith('event') ? onEvent(name) : MessagePattern(name)),
    id: (...pipes) => Payload('id', ...(pipes as Type[])),
    start: startRpc,
  },
  'a WebSocket': {
    exception: WsException,
    forClass: WebSocketGateway(),
    on: SubscribeMessage,
    id: (...pipes) => MessageBody('id', ...(pipes as Type[])),
    start: startWs,
  },
  GraphQL: {
    exception: Error,
    forClass: Resolver(),
    on: (name) => Query(() => String, { name, nullable: true }),
    id: (...pipes) => Args('id', { type: () => String }, ...(pipes as Type[])),
    start: startGraphql,
  },
};

function handlersOf({ forClass, on, id }: Transport, place: Place): Type<unknown> {
  const role = (name: string): MethodDecorator => SetMetadata('role', name);

  @forClass
  class Handlers {
    constructor(
      @Inject(Stage) private readonly stage: Stage,
      @Inject(LockService) private readonly locks: LockService,
    ) {}

    @beside(
      place,
      Locked('g:<id>', { waitMs: 0 }),
      on('buy'),
      UseGuards(RoleGuard),
      role('buyer'),
      UseInterceptors(Wrap),
    )
    async buy(@id(ParseIntPipe) item: number): Promise<string> {
      return `${typeof item} ${item} under ${this.locks.current()?.key}`;
    }

    @beside(place, Locked('g:<id>'), on('denied'), UseGuards(RoleGuard), role('guest'))
    async denied(@id() _item: string): Promise<string> {
      this.stage.note('ran denied');
      return 'never';
    }

    @beside(place, Locked('g:<id>'), on('soldOut'), UseFilters(SoldOutFilter))
    async soldOut(@id() _item: string): Promise<string> {
      throw new SoldOut();
    }

    @beside(place, Locked('named:<id|trim>'), on('named'))
    async named(@id() item: string): Promise<string> {
      return `${item} under ${this.locks.current()?.key}`;
    }

    @beside(place, Locked('down:<id>', { waitMs: 0 }), on('down'))
    async down(@id() item: string): Promise<string> {
      return item;
    }

    @beside(place, Locked('lost:<id>', { leaseMs: 50 }), on('lost'))
    async lost(@id() item: string): Promise<string> {
      await this.stage.reach('lost');
      return item;
    }

    @on('inside')
    async inside(@id() item: string): Promise<string> {
      return this.locks.withLock(`g:${item}`, { waitMs: 0 }, () => 'free');
    }

    @on('mistake')
    async mistake(@id() item: string): Promise<string> {
      return this.locks.withLock([], () => item);
    }
  }
  return Handlers;
}

const MATRIX = Object.keys(TRANSPORTS).flatMap((name) => PLACES.map((place) => [name, place] as const));

describe.each(MATRIX)('@Locked on %s, other decorators %s it', (name, place) => {
  const transport = TRANSPORTS[name] as Transport;
  let running: Running;
  let events: string[];

  beforeAll(async () => {
    running = await transport.start(handlersOf(transport, place));
  });
  beforeEach(() => {
    events = record(running.locks);
    running.stage.log.length = 0;
    seen.length = 0;
  });
  afterAll(() => running.close());

  it('handler, guard, metadata, pipe and interceptor work under one lock', async () => {
    expect(await running.call('buy', '042')).toEqual({ value: '[number 42 under g:42 in g:42]' });
    await until(() => events.length > 1);
    expect(events).toEqual(once('g:42'));
  });

  it('a guard refuses, and nothing is locked', async () => {
    expect((await running.call('denied', '1')).error).toBeDefined();
    expect([events, running.stage.log]).toEqual([[], []]);
  });

  it('a filter of the method sees the error of the method', async () => {
    expect((await running.call('soldOut', '1')).error?.message).toBe('sold out');
  });

  it('a busy lock is told by code and not by key, as an exception of the transport', async () => {
    const mine = await running.locks.acquire('g:7');
    const { error } = await running.call('buy', '7');
    expect(error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', message: expect.stringContaining('in use') });
    expect(JSON.stringify(error)).not.toMatch(/g:7|held by/);
    expect(seen).toEqual([expect.any(transport.exception)]);
    expect(seen[0]).toMatchObject({ cause: { code: 'LOCK_WAIT_TIMEOUT', key: 'g:7' } });
    await mine.release();
    expect(await running.call('buy', '7')).toMatchObject({ value: expect.stringContaining('under g:7') });
  });

  it('a value that makes no key is told by code', async () => {
    expect((await running.call('named', '  ')).error).toMatchObject({ code: 'LOCK_KEY' });
    expect(await running.call('named', ' a:b ')).toEqual({ value: ' a:b  under named:a%3Ab' });
  });

  it('a store that is away is told by code and not by address', async () => {
    const { error } = await running.call('down', '1');
    expect(error).toMatchObject({ code: 'LOCK_STORE' });
    expect(JSON.stringify(error)).not.toContain('secret-host');
  });

  it('a loss is told while the handler still runs', async () => {
    expect((await running.call('lost', '1')).error).toMatchObject({ code: 'LOCK_LOST' });
    running.stage.go('lost');
    await until(() => running.stage.log.includes('lost left'));
  });

  it('a lock error of code inside an ordinary handler is told by code as well', async () => {
    const mine = await running.locks.acquire('g:8');
    const { error } = await running.call('inside', '8');
    expect(error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
    expect(JSON.stringify(error)).not.toContain('g:8');
    await mine.release();
    expect(await running.call('inside', '8')).toEqual({ value: 'free' });
  });

  it('a mistake of the program is told to nobody but the log', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockReturnValue(undefined);
    const { error } = await running.call('mistake', '1');
    expect(error?.message).toBe('Internal server error');
    expect(logged).toHaveBeenCalledWith(expect.objectContaining({ code: 'LOCK_CONFIGURATION' }));
    logged.mockRestore();
  });
});

describe('messages over TCP', () => {
  @Controller()
  class Handlers {
    constructor(
      @Inject(Stage) private readonly stage: Stage,
      @Inject(LockService) private readonly locks: LockService,
    ) {}

    @onEvent('event.placed')
    @Locked('order:<id>')
    async placed(@Payload('id') id: string): Promise<void> {
      this.stage.note(`${id} under ${this.locks.current()?.key}`);
    }

    @MessagePattern('whole')
    @Locked(['order:<data.id>', 'order:<0.id>:lines'])
    async whole(@Payload() _order: { id: string }): Promise<unknown> {
      return this.locks.current()?.keys;
    }

    @MessagePattern('context')
    @Locked((context: { getPattern(): string }, id: string) => `${context.getPattern()}:${id}`)
    async context(@Ctx() _context: { getPattern(): string }, @Payload('id') _id: string): Promise<unknown> {
      return this.locks.current()?.key;
    }
  }

  it('an event is handled under one lock, and a payload makes the key by source and by position', async () => {
    const { call, stage, locks, close } = await startRpc(Handlers);
    const events = record(locks);
    await call('event.placed', '5');
    await until(() => events.length > 1);
    expect([stage.log, events]).toEqual([['5 under order:5'], once('order:5')]);
    expect(await call('whole', '6')).toEqual({ value: ['order:6', 'order:6:lines'] });
    await close();
  });

  it('a key function gets the context where the handler gets it', async () => {
    const { call, close } = await startRpc(Handlers);
    expect(await call('context', '7')).toEqual({ value: 'context:7' });
    await close();
  });
});

describe('a WebSocket', () => {
  @WebSocketGateway()
  class Gateway {
    constructor(@Inject(LockService) private readonly locks: LockService) {}

    @SubscribeMessage('socket')
    @Locked((socket: WebSocket, id: string) => `${typeof socket.send}:${id}`)
    async socket(@ConnectedSocket() _socket: WebSocket, @MessageBody('id') _id: string): Promise<unknown> {
      return this.locks.current()?.key;
    }

    @SubscribeMessage('wait')
    @Locked('wait:<data.id>')
    async wait(): Promise<string> {
      return 'done';
    }
  }

  it('a key function gets the socket where the handler gets it', async () => {
    const { call, close } = await startWs(Gateway);
    expect(await call('socket', '7')).toEqual({ value: 'function:7' });
    await close();
  });

  it('a client that leaves while it waits leaves the line', async () => {
    const { url, locks, close } = await startWs(Gateway);
    const ended: string[] = [];
    const mine = await locks.acquire('wait:1');
    locks.events$.subscribe(({ type }) => ended.push(type));
    const socket = await connect(url);
    socket.send(JSON.stringify({ event: 'wait', data: { id: '1' } }));
    await until(() => ended.includes('asked'));
    socket.terminate();
    await until(() => ended.includes('abandoned'));
    expect(await mine.release()).toBe('released');
    await close();
  });
});

describe('GraphQL', () => {
  @Resolver()
  class Handlers {
    constructor(@Inject(LockService) private readonly locks: LockService) {}

    @Query(() => String)
    @Locked(['a:<args.id>', 'b:<id>'])
    async both(@Args('id') _id: string): Promise<string> {
      return String(this.locks.current()?.keys);
    }

    @Query(() => String)
    @Locked((context: { req: { url: string } }, id: string) => `${typeof context.req}:${id}`)
    async context(
      @Context() _context: { req: { url: string } },
      @Args('id') _id: string,
    ): Promise<string | undefined> {
      return this.locks.current()?.key;
    }

    @Query(() => String)
    @Locked('wait')
    async wait(): Promise<string> {
      return 'done';
    }
  }

  it('keys come from arguments by source and by name, and a key function gets the context', async () => {
    const { call, close } = await startGraphql(Handlers);
    expect(await call('both', '1')).toEqual({ value: 'a:1,b:1' });
    expect(await call('context', '2')).toEqual({ value: 'object:2' });
    await close();
  });

  it('a client that leaves while it waits leaves the line', async () => {
    const { url, locks, close } = await startGraphql(Handlers);
    const ended: string[] = [];
    const mine = await locks.acquire('wait');
    locks.events$.subscribe(({ type }) => ended.push(type));
    const client = new AbortController();
    const answer = ask(url, '{ wait }', client.signal).catch(() => 'left');
    await until(() => ended.includes('asked'));
    client.abort();
    expect(await answer).toBe('left');
    await until(() => ended.includes('abandoned'));
    expect(await mine.release()).toBe('released');
    await close();
  });
});
