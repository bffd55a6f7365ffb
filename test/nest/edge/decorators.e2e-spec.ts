import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  BadRequestException,
  Body,
  Catch,
  Controller,
  Get,
  Header,
  HttpCode,
  Inject,
  Injectable,
  Param,
  Post,
  Query,
  Redirect,
  Scope,
  SetMetadata,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  Version,
  VERSION_NEUTRAL,
  VersioningType,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type PipeTransform,
  type Type,
} from '@nestjs/common';
import { HttpAdapterHost, Reflector } from '@nestjs/core';
import { BullModule, OnWorkerEvent, Processor, WorkerHost, getQueueToken } from '@nestjs/bullmq';
import {
  CommandBus,
  CommandHandler,
  CqrsModule,
  EventBus,
  EventsHandler,
  QueryBus,
  QueryHandler,
  type ICommandHandler,
  type IEventHandler,
  type IQueryHandler,
} from '@nestjs/cqrs';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Cron, Interval, ScheduleModule, SchedulerRegistry, Timeout } from '@nestjs/schedule';
import {
  ApiBearerAuth,
  ApiOperation,
  ApiQuery,
  ApiResponse,
  ApiTags,
  DocumentBuilder,
  SwaggerModule,
} from '@nestjs/swagger';
import type { Job, Queue } from 'bullmq';
import {
  CurrentLock,
  DistributedLockModule,
  LockDefaults,
  LockService,
  Locked,
  type Lock,
} from 'nestjs-distributed-lock';
import { map, type Observable } from 'rxjs';
import { ADAPTERS, Stage, startApp, type StartedApp } from '../integration/stage.js';
import { until } from '#until';
import { PLACES, beside, once, type Place } from './support.js';
import { outcomesOf } from '../../support/events.js';

class OutOfStock extends Error {}

@Catch(OutOfStock)
class OutOfStockFilter implements ExceptionFilter {
  constructor(@Inject(HttpAdapterHost) private readonly host: HttpAdapterHost) {}

  catch(_error: OutOfStock, host: ArgumentsHost): void {
    this.host.httpAdapter.reply(host.switchToHttp().getResponse(), { stock: 0 }, 410);
  }
}

@Injectable()
class RolesGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const role = this.reflector.get<string | undefined>('role', context.getHandler());
    const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    return headers['x-role'] === role;
  }
}

@Injectable()
class Double implements NestInterceptor {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const within = this.locks.current()?.key;
    return next.handle().pipe(map((value: unknown) => ({ value, within })));
  }
}

@Injectable()
class Upper implements PipeTransform {
  transform(value: unknown): unknown {
    return typeof value === 'string' ? value.toUpperCase() : value;
  }
}

const Role = (role: string): MethodDecorator => SetMetadata('role', role);

function controller(place: Place): Type<unknown> {
  @ApiTags('goods')
  @Controller()
  class Goods {
    constructor(@Inject(LockService) private readonly locks: LockService) {}

    @beside(place, Locked('g:<id>'), Get('guarded/:id'), UseGuards(RolesGuard), Role('buyer'))
    async guarded(@Param('id') id: string): Promise<unknown> {
      return { id, within: this.locks.current()?.key };
    }

    @beside(place, Locked('g:<id>'), Post('status/:id'), HttpCode(202), Header('x-made-by', 'hand'))
    async status(@Param('id') _id: string): Promise<unknown> {
      return { within: this.locks.current()?.key };
    }

    @beside(place, Locked('g:<id>'), Get('redirect/:id'), Redirect('/elsewhere', 307))
    async redirect(@Param('id') _id: string): Promise<void> {}

    @beside(place, Locked('g:<id>'), Version('2'), Get('versioned/:id'))
    async versioned(@Param('id') _id: string): Promise<unknown> {
      return { within: this.locks.current()?.key };
    }

    @beside(place, Locked('g:<id>'), Get('piped/:id'), UsePipes(Upper))
    async piped(@Param('id') id: string): Promise<unknown> {
      return { id, within: this.locks.current()?.key };
    }

    @beside(place, Locked('g:<id>'), Get('filtered/:id'), UseFilters(OutOfStockFilter))
    async filtered(@Param('id') _id: string): Promise<void> {
      throw new OutOfStock();
    }

    @beside(place, Locked('g:<id>'), Get('intercepted/:id'), UseInterceptors(Double))
    async intercepted(@Param('id') id: string): Promise<unknown> {
      return id;
    }

    @beside(
      place,
      Locked('g:<id>'),
      Post('documented/:id'),
      ApiOperation({ summary: 'Buys', operationId: 'buy' }),
      ApiQuery({ name: 'dry', required: false }),
      ApiResponse({ status: 423, description: 'busy' }),
      ApiBearerAuth(),
    )
    async documented(
      @Param('id') _id: string,
      @Body('count') _count: number,
      @CurrentLock() _lock: Lock,
      @Query('page') _page: string,
    ): Promise<void> {}
  }
  return Goods;
}

interface Route {
  readonly what: string;
  readonly path: string;
  readonly init?: RequestInit;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

/** Each request ends with the id that its key has. */
const ROUTES: readonly Route[] = [
  {
    what: 'a guard lets in whom the metadata of the method names',
    path: '/guarded/1',
    init: { headers: { 'x-role': 'buyer' } },
    body: { id: '1', within: 'g:1' },
  },
  {
    what: 'the route, its status and its headers stay',
    path: '/status/2',
    init: { method: 'POST' },
    status: 202,
    headers: { 'x-made-by': 'hand' },
    body: { within: 'g:2' },
  },
  {
    what: 'a redirection stays',
    path: '/redirect/3',
    init: { redirect: 'manual' },
    status: 307,
    headers: { location: '/elsewhere' },
  },
  {
    what: 'a version stays',
    path: '/versioned/4',
    init: { headers: { 'x-version': '2' } },
    body: { within: 'g:4' },
  },
  {
    what: 'a pipe of the method makes the argument and the key',
    path: '/piped/abc',
    body: { id: 'ABC', within: 'g:ABC' },
  },
  {
    what: 'a filter of the method sees the error of the method',
    path: '/filtered/5',
    status: 410,
    body: { stock: 0 },
  },
  {
    what: 'an interceptor of the method runs once, inside the lock',
    path: '/intercepted/6',
    body: { value: '6', within: 'g:6' },
  },
];

const KINDS = PLACES.flatMap((place) => ADAPTERS.map((adapter) => [place, adapter] as const));

describe.each(KINDS)('decorators of a handler %s @Locked, on %s', (place, adapter) => {
  let started: StartedApp;
  let events: string[];

  beforeAll(async () => {
    started = await startApp(adapter, { controllers: [controller(place)] }, (app) =>
      app.enableVersioning({
        type: VersioningType.HEADER,
        header: 'x-version',
        defaultVersion: VERSION_NEUTRAL,
      }),
    );
  });
  beforeEach(() => void (events = outcomesOf(started.locks)));
  afterAll(() => started.app.close());

  it.each(ROUTES)('$what, under one lock', async ({ path, init, status = 200, headers = {}, body }) => {
    const answer = await started.fetch(path, init);
    expect(answer.status).toBe(status);
    expect(Object.fromEntries(answer.headers)).toMatchObject(headers);
    expect(await answer.text()).toContain(body === undefined ? '' : JSON.stringify(body));
    await until(() => events.length > 1);
    expect(events).toEqual(once(`g:${path.split('/').at(-1)}`.replace('abc', 'ABC')));
  });

  it('a guard keeps out others, and nothing is locked for them', async () => {
    expect((await started.fetch('/guarded/1', { headers: { 'x-role': 'guest' } })).status).toBe(403);
    expect(events).toEqual([]);
  });

  it('a version keeps out requests for others', async () => {
    expect((await started.fetch('/versioned/4')).status).toBe(404);
  });

  it('Swagger documents operation, parameters, body, responses and security', () => {
    const config = new DocumentBuilder().addBearerAuth().build();
    const { paths } = SwaggerModule.createDocument(started.app, config);
    expect(paths['/documented/{id}']?.post).toMatchObject({
      operationId: 'buy',
      summary: 'Buys',
      tags: ['goods'],
      security: [{ bearer: [] }],
      parameters: expect.arrayContaining([
        expect.objectContaining({ name: 'id', in: 'path', required: true, schema: { type: 'string' } }),
        expect.objectContaining({ name: 'dry', in: 'query', required: false }),
        expect.objectContaining({ name: 'page', in: 'query', required: true, schema: { type: 'string' } }),
      ]),
      responses: { 423: expect.objectContaining({ description: 'busy' }) },
    });
    expect(paths['/documented/{id}']?.post?.parameters).toHaveLength(3);
  });
});

class Restock {
  constructor(readonly id: string) {}
}
class StockOf {
  constructor(readonly id: string) {}
}
class Restocked {
  constructor(readonly id: string) {}
}

/** Providers that frameworks call, with their decorators in one place; all note the key they run under. */
function jobs(place: Place, queue: string): Type<unknown>[] {
  @Injectable()
  class Base {
    @Inject(Stage) protected readonly stage!: Stage;
    @Inject(LockService) protected readonly locks!: LockService;

    protected ran(what: string): string {
      this.stage.note(`${what} under ${this.locks.current()?.key}`);
      return what;
    }
  }

  @Injectable()
  class Scheduled extends Base {
    @beside(place, Locked('cron'), Cron('0 0 1 1 *', { name: 'yearly' }))
    async yearly(): Promise<void> {
      this.ran('cron');
    }

    @beside(place, Locked('interval'), Interval('often', 20))
    async often(): Promise<void> {
      this.ran('interval');
    }

    @beside(place, Locked('timeout'), Timeout(1))
    async soon(): Promise<void> {
      this.ran('timeout');
    }
  }

  @Injectable()
  class Listener extends Base {
    @beside(place, Locked('event:<order.id>'), OnEvent('order.placed'), OnEvent('order.again'))
    async placed(order: { id: string }): Promise<string> {
      return this.ran(`event ${order.id}`);
    }
  }

  @Processor(queue)
  class Worker extends WorkerHost {
    constructor(
      @Inject(Stage) private readonly stage: Stage,
      @Inject(LockService) private readonly locks: LockService,
    ) {
      super();
    }

    @(Locked('job:<job.data.sku>') as MethodDecorator)
    async process(job: Job<{ sku: string }>): Promise<string> {
      this.stage.note(`job under ${this.locks.current()?.key}`);
      return `packed ${job.data.sku}`;
    }

    @beside(place, Locked('done:<job.data.sku>'), OnWorkerEvent('completed'))
    async done(job: Job<{ sku: string }>): Promise<void> {
      this.stage.note(`${job.returnvalue} under ${this.locks.current()?.key}`);
    }
  }

  @CommandHandler(Restock)
  class RestockHandler extends Base implements ICommandHandler<Restock> {
    @beside(place, Locked('stock:<command.id>'), SetMetadata('own', 'kept'))
    async execute(command: Restock): Promise<string> {
      return this.ran(`command ${command.id}`);
    }
  }

  @QueryHandler(StockOf)
  class StockHandler extends Base implements IQueryHandler<StockOf> {
    @beside(place, Locked('stock:<0.id>'), SetMetadata('own', 'kept'))
    async execute(query: StockOf): Promise<string> {
      return this.ran(`query ${query.id}`);
    }
  }

  @EventsHandler(Restocked)
  class RestockedHandler extends Base implements IEventHandler<Restocked> {
    @beside(place, Locked('stock:<event.id>'), SetMetadata('own', 'kept'))
    async handle(event: Restocked): Promise<void> {
      this.ran(`published ${event.id}`);
    }
  }

  return [Scheduled, Listener, Worker, RestockHandler, StockHandler, RestockedHandler];
}

describe.each(PLACES)('decorators of a provider %s @Locked', (place) => {
  const queueName = `edge-${place}-${process.pid}`;
  let app: INestApplication;
  let stage: Stage;
  let events: string[];

  beforeAll(async () => {
    const { hostname: host, port } = new URL(String(process.env['REDIS_URL']));
    const started = await startApp('express', {
      imports: [
        DistributedLockModule.forRoot({ shutdownGraceMs: 2_000 }),
        ScheduleModule.forRoot(),
        EventEmitterModule.forRoot(),
        CqrsModule.forRoot(),
        BullModule.forRoot({ connection: { host, port: Number(port) } }),
        BullModule.registerQueue({ name: queueName }),
      ],
      providers: jobs(place, queueName),
    });
    ({ app, stage } = started);
    events = outcomesOf(started.locks);
  });
  afterAll(async () => {
    await app.get<Queue>(getQueueToken(queueName)).obliterate({ force: true });
    await app.close();
  });

  const of = (key: string): readonly string[] => events.filter((event) => event.endsWith(` ${key}`));

  it('@Cron fires, under one lock', async () => {
    await app.get(SchedulerRegistry).getCronJob('yearly').fireOnTick();
    await until(() => of('cron').length > 1);
    expect(stage.log).toContain('cron under cron');
    expect(of('cron')).toEqual(once('cron'));
  });

  it('@Interval and @Timeout fire, each time under one lock', async () => {
    await until(() => stage.log.includes('interval under interval'));
    app.get(SchedulerRegistry).deleteInterval('often');
    await until(() => of('interval').length % 2 === 0 && of('timeout').length > 1);
    const runs = stage.log.filter((it) => it === 'interval under interval').length;
    expect(of('interval')).toEqual(Array.from({ length: runs }, () => once('interval')).flat());
    expect(of('timeout')).toEqual(once('timeout'));
  });

  it('@OnEvent hears each of its events, under one lock', async () => {
    expect(await app.get(EventEmitter2).emitAsync('order.placed', { id: '7' })).toEqual(['event 7']);
    expect(await app.get(EventEmitter2).emitAsync('order.again', { id: '8' })).toEqual(['event 8']);
    expect(stage.log).toEqual(expect.arrayContaining(['event 7 under event:7', 'event 8 under event:8']));
    expect([of('event:7'), of('event:8')]).toEqual([once('event:7'), once('event:8')]);
  });

  it('a queue worker processes a job and hears of its end, each under one lock', async () => {
    await app.get<Queue>(getQueueToken(queueName)).add('pack', { sku: 'a:b' });
    await until(() => of('done:a%3Ab').length > 1);
    expect(stage.log).toEqual(expect.arrayContaining(['job under job:a%3Ab', 'packed a:b under done:a%3Ab']));
    expect(of('job:a%3Ab')).toEqual(once('job:a%3Ab'));
    expect(of('done:a%3Ab')).toEqual(once('done:a%3Ab'));
  });

  it('commands, queries and events of CQRS are handled, each under one lock', async () => {
    expect(await app.get(CommandBus).execute(new Restock('1'))).toBe('command 1');
    expect(await app.get(QueryBus).execute(new StockOf('2'))).toBe('query 2');
    await app.get(EventBus).publish(new Restocked('3'));
    await until(() => of('stock:3').length > 1);
    expect(stage.log).toEqual(
      expect.arrayContaining([
        'command 1 under stock:1',
        'query 2 under stock:2',
        'published 3 under stock:3',
      ]),
    );
    expect(['1', '2', '3'].map((id) => of(`stock:${id}`))).toEqual(
      ['1', '2', '3'].map((id) => once(`stock:${id}`)),
    );
  });
});

@Injectable({ scope: Scope.TRANSIENT })
class Counter {
  n = 0;

  @Locked('counter:<0>')
  async add(_name: string): Promise<number> {
    this.n += 1;
    return this.n;
  }
}

abstract class Crud {
  @Inject(LockService) protected readonly locks!: LockService;

  @Get('one/:id')
  @Locked('crud:<id>')
  async one(@Param('id') id: string): Promise<unknown> {
    return { by: this.constructor.name, found: await this.find(id) };
  }

  @Get('other/:id')
  @Locked('crud:<id>')
  async other(@Param('id') id: string): Promise<unknown> {
    return { by: 'base', id, within: this.locks.current()?.key };
  }

  abstract find(id: string): Promise<unknown>;
}

@Controller('cats')
class Cats extends Crud {
  @Locked('cat:<id>')
  async find(id: string): Promise<unknown> {
    return { id, within: this.locks.current()?.key };
  }

  @Get('other/:id')
  override async other(@Param('id') id: string): Promise<unknown> {
    return { before: this.locks.current()?.key, ...((await super.other(id)) as object) };
  }
}

@Controller({ path: 'dogs', scope: Scope.REQUEST })
class Dogs extends Crud {
  constructor(@Inject(Counter) private readonly counter: Counter) {
    super();
  }

  @Get('other/:id')
  @Locked('dog:<id>')
  override async other(@Param('id') id: string): Promise<unknown> {
    return { within: this.locks.current()?.key, base: await super.other(id) };
  }

  async find(id: string): Promise<unknown> {
    return { id, n: await this.counter.add('x'), within: this.locks.current()?.key };
  }
}

describe('inherited and abstract methods, and scopes', () => {
  let started: StartedApp;
  let events: string[];
  const json = async (path: string): Promise<unknown> => (await started.fetch(path)).json();

  beforeAll(async () => {
    started = await startApp('express', { controllers: [Cats, Dogs], providers: [Counter] });
  });
  beforeEach(() => void (events = outcomesOf(started.locks)));
  afterAll(() => started.app.close());

  it('an inherited handler and the abstract method it calls take a lock each', async () => {
    expect(await json('/cats/one/1')).toEqual({ by: 'Cats', found: { id: '1', within: 'cat:1' } });
    await until(() => events.length > 3);
    expect(events).toEqual(['acquired crud:1', 'acquired cat:1', 'released cat:1', 'released crud:1']);
  });

  it('a method that overrides a locked one is locked by the call of the inherited one alone', async () => {
    expect(await json('/cats/other/2')).toEqual({ by: 'base', id: '2', within: 'crud:2' });
    expect(events).toEqual(once('crud:2'));
  });

  it('a locked method that overrides a locked one takes both locks', async () => {
    expect(await json('/dogs/other/3')).toMatchObject({ within: 'dog:3', base: { id: '3' } });
    await until(() => events.length > 3);
    expect(events).toEqual(['acquired dog:3', 'acquired crud:3', 'released crud:3', 'released dog:3']);
  });

  it('a handler with other parameters than the locked method that it overrides locks what it passes to super', async () => {
    abstract class Goods {
      @Locked('goods:<id>')
      async take(id: string, count: string): Promise<unknown> {
        return { id, count };
      }
    }
    @Controller('goods')
    class GoodsController extends Goods {
      @Get(':count/:id')
      override async take(@Param('count') count: string, @Param('id') id: string): Promise<unknown> {
        return super.take(id, count);
      }
    }
    const { app, locks, fetch } = await startApp('express', { controllers: [GoodsController] });
    const outcomes = outcomesOf(locks);
    expect(await (await fetch('/goods/3/7')).json()).toEqual({ id: '7', count: '3' });
    expect(outcomes).toEqual(once('goods:7'));
    await app.close();
  });

  it('a request-scoped controller and its transient provider are new and locked for each request', async () => {
    const answer = { by: 'Dogs', found: { id: '4', n: 1, within: 'crud:4' } };
    expect([await json('/dogs/one/4'), await json('/dogs/one/4')]).toEqual([answer, answer]);
    await until(() => events.length > 7);
    const one = ['acquired crud:4', 'acquired counter:x', 'released counter:x', 'released crud:4'];
    expect(events).toEqual([...one, ...one]);
  });
});

describe('what other decorators leave on a method', () => {
  it.each(PLACES)('is there for readers of own metadata when declared %s @Locked', (place) => {
    class Service {
      @beside(place, Locked('a'), SetMetadata('list', ['x']), SetMetadata(Symbol.for('own'), 1))
      async work(): Promise<void> {}
    }
    const work: unknown = Object.getOwnPropertyDescriptor(Service.prototype, 'work')?.value;
    expect(Reflect.getOwnMetadata('list', work as object)).toEqual(['x']);
    expect(Reflect.getOwnMetadata(Symbol.for('own'), work as object)).toBe(1);
  });

  it('a decorator that replaces the method above @Locked runs around the lock, below it inside', async () => {
    const log: string[] = [];
    const wrap =
      (name: string): MethodDecorator =>
      (_target, _key, descriptor: PropertyDescriptor) => {
        const inner = descriptor.value as (this: Service) => Promise<unknown>;
        descriptor.value = async function (this: Service): Promise<unknown> {
          log.push(`${name} ${this.locks.current()?.key}`);
          return inner.call(this);
        };
      };
    @Injectable()
    class Service {
      constructor(@Inject(LockService) readonly locks: LockService) {}

      @wrap('above')
      @Locked('wrapped')
      @wrap('below')
      async work(): Promise<void> {
        if (!this.locks.current()) throw new BadRequestException();
      }
    }
    const { app } = await startApp('express', { providers: [Service] });
    await app.get(Service).work();
    expect(log).toEqual(['above undefined', 'below wrapped']);
    await app.close();
  });
});

it('a minimum hold is refused at boot when the lease of its class is shorter', async () => {
  @LockDefaults({ leaseMs: 1_000 })
  class Job {
    @Locked('job', { holdAtLeastMs: 2_000 })
    async run(): Promise<void> {}
  }
  await expect(startApp('express', { providers: [Job] })).rejects.toThrow(
    '@Locked on Job.run: holdAtLeastMs (2000) must not be longer than leaseMs (1000): the lease would end before.',
  );
});
