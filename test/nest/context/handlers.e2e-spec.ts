import { AsyncResource } from 'node:async_hooks';
import { once as next } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import type { AddressInfo, Server } from 'node:net';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Param,
  type CallHandler,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
} from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { Field, Int, ObjectType, Query, ResolveField, Resolver } from '@nestjs/graphql';
import {
  ClientProxyFactory,
  MessagePattern,
  Server as RpcServer,
  Transport,
  type CustomTransportStrategy,
} from '@nestjs/microservices';
import { WsAdapter } from '@nestjs/platform-ws';
import { Interval, ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import type { Job, Queue } from 'bullmq';
import { CurrentLock, DistributedLockModule, Locked, LockService, type Lock } from 'nestjs-distributed-lock';
import { defer, firstValueFrom, from, lastValueFrom, type Observable } from 'rxjs';
import { until } from '#until';
import { ADAPTERS, Stage, startApp, type StartedApp } from '../integration/stage.js';
import { ask, SERVERS } from '../edge/transports/graphql.js';
import { connect } from '../edge/transports/sockets.js';
import { OneSlot } from '../../support/one-slot.js';

/** Asks once, and answers for itself when the lock is held, so that a call tells which of the two it was. */
const BUSY = { waitMs: 0, onBusy: () => 'busy' };

const apps: INestApplication[] = [];
const start = async (...args: Parameters<typeof startApp>): Promise<StartedApp> => {
  const started = await startApp(...args);
  apps.push(started.app);
  return started;
};
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

const textOf = async (answer: Promise<Response>): Promise<string> => (await answer).text();

describe.each(ADAPTERS)(
  'a request that a queue of the process starts in the flow of another one, on %s',
  (adapter) => {
    const queue = new OneSlot();

    @Controller()
    class Stock {
      constructor(
        private readonly stage: Stage,
        private readonly locks: LockService,
      ) {}

      @Get('a/by-decorator')
      @Locked('stock')
      byDecorator(): Promise<string> {
        return this.first();
      }

      @Get('a/by-service')
      byService(): Promise<string> {
        return this.locks.withLock('stock', () => this.first());
      }

      @Get('b')
      @Locked('stock')
      async second(@CurrentLock() lock?: Lock): Promise<string> {
        this.stage.note('b');
        return `depth ${lock?.depth}`;
      }

      private async first(): Promise<string> {
        await queue.add(() => this.stage.reach('a in the queue'));
        await this.stage.reach('a behind the queue');
        return 'a';
      }
    }

    it.each(['by-decorator', 'by-service'])(
      'takes a lock of its own, and waits for the other one (%s)',
      async (how) => {
        const warnings: string[] = [];
        let hasQueued = false;
        const { stage, fetch, locks } = await start(adapter, { controllers: [Stock] }, (app) => {
          app.use((request: { url: string }, _response: unknown, goOn: () => void) => {
            if (request.url !== '/b') return goOn();
            hasQueued = true;
            return void queue.add(async () => goOn());
          });
        });
        locks.events$.subscribe((event) => event.type === 'warning' && warnings.push(event.message));
        const asked: string[] = [];
        locks.events$.subscribe((event) => event.type === 'asked' && asked.push(event.key));
        const a = textOf(fetch(`/a/${how}`));
        await until(() => stage.isAt('a in the queue'));
        const b = textOf(fetch('/b'));
        await until(() => hasQueued);
        stage.go('a in the queue');
        await until(() => stage.isAt('a behind the queue') && asked.length === 2);
        expect(stage.log).not.toContain('b');
        stage.go('a behind the queue');
        expect([await a, await b]).toEqual(['a', 'depth 0']);
        expect(warnings).toEqual([
          expect.stringContaining('@Locked on Stock.second: Nest has called it in the async context of'),
        ]);
      },
    );
  },
);

describe.each(ADAPTERS)('requests that share a queue with one slot, on %s', (adapter) => {
  const queue = new OneSlot();
  const turnsUnderLock = 3;
  let [inside, most] = [0, 0];

  @Controller()
  class Crowd {
    /** Awaits the queue under the lock, so that the queue starts what comes next in the flow of this request. */
    @Get('first')
    @Locked('crowd')
    async first(): Promise<string> {
      return this.work(() => queue.add(() => turn()));
    }

    @Get('queued')
    @Locked('crowd')
    async queued(): Promise<string> {
      return this.work(() => turn());
    }

    private async work(step: () => Promise<unknown>): Promise<string> {
      inside += 1;
      most = Math.max(most, inside);
      for (let i = 0; i < turnsUnderLock; i += 1) await step();
      inside -= 1;
      return 'done';
    }
  }

  it('are never two in one lock', async () => {
    const { fetch } = await start(adapter, { controllers: [Crowd] }, (app) => {
      app.use((request: { url: string }, _response: unknown, goOn: () => void) => {
        if (request.url === '/first') return goOn();
        return void queue.add(async () => goOn());
      });
    });
    const paths = Array.from({ length: 24 }, (_, i) => (i % 3 === 0 ? '/first' : '/queued'));
    const answers = await Promise.all(paths.map((path) => textOf(fetch(path))));
    expect(new Set(answers)).toEqual(new Set(['done']));
    expect(most).toBe(1);
  });
});

describe.each(ADAPTERS)('a locked handler on %s shares the lock that is held around it', (adapter) => {
  @Injectable()
  class Around implements NestInterceptor {
    constructor(private readonly locks: LockService) {}

    intercept(_context: ExecutionContext, handler: CallHandler): Observable<unknown> {
      return defer(() => from(this.locks.withLock('tenant', () => lastValueFrom(handler.handle()))));
    }
  }

  @Controller()
  class Tenants {
    constructor(private readonly events: EventEmitter2) {}

    @Get('depth/:id')
    @Locked('tenant', { waitMs: 0 })
    async depth(@Param('id') id: string, @CurrentLock() lock?: Lock): Promise<string> {
      return `${id} ${lock?.depth}`;
    }

    @Get('direct')
    @Locked('tenant', { waitMs: 0 })
    direct(): Promise<string> {
      return this.depth('called');
    }

    @Get('event')
    @Locked('tenant', { waitMs: 0 })
    async event(): Promise<string> {
      return String(await this.events.emitAsync('asked'));
    }

    @OnEvent('asked', { suppressErrors: false })
    @Locked('tenant', { waitMs: 0 })
    async onEvent(lock: Lock | undefined): Promise<number | undefined> {
      return lock?.depth;
    }
  }

  it('by a middleware of the same request', async () => {
    const { fetch } = await start(adapter, { controllers: [Tenants], imports: imports() }, (app) => {
      const locks = app.get(LockService);
      type Answer = { once(event: string, listener: () => void): void };
      app.use((_request: unknown, response: Answer, goOn: () => void) => {
        void locks.withLock('tenant', async () => {
          const over = new Promise<void>((resolve) => response.once('close', resolve));
          goOn();
          await over;
        });
      });
    });
    expect(await textOf(fetch('/depth/7'))).toBe('7 1');
  });

  it('by a global interceptor, by its own controller, and by the flow that has sent an event', async () => {
    const { fetch } = await start(adapter, { controllers: [Tenants], imports: imports() }, (app) => {
      app.useGlobalInterceptors(new Around(app.get(LockService)));
    });
    expect(await textOf(fetch('/depth/7'))).toBe('7 1');
    expect(await textOf(fetch('/direct'))).toBe('called 2');
    expect((await fetch('/event')).status).toBe(200);
  });

  const imports = () => [DistributedLockModule.forRoot({}), EventEmitterModule.forRoot()];
});

describe('a message that comes in the flow of its sender', () => {
  /** A transport in memory, as one of a test or of a modular monolith. */
  class InMemory extends RpcServer implements CustomTransportStrategy {
    listen(goOn: () => void): void {
      goOn();
    }

    close(): void {}

    on(): void {}

    unwrap<T>(): T {
      return undefined as T;
    }

    async ask(pattern: string): Promise<unknown> {
      const answers = await this.getHandlerByPattern(pattern)?.({}, {});
      return lastValueFrom(this.transformToObservable(answers));
    }
  }

  @Injectable()
  class Around implements NestInterceptor {
    constructor(private readonly locks: LockService) {}

    intercept(_context: ExecutionContext, handler: CallHandler): Observable<unknown> {
      return defer(() => from(this.locks.withLock('tenant', () => lastValueFrom(handler.handle()))));
    }
  }

  @Controller()
  class Messages {
    @MessagePattern('stock')
    @Locked('stock', BUSY)
    async stock(): Promise<string> {
      return 'shared';
    }

    @MessagePattern('tenant')
    @Locked('tenant', BUSY)
    async tenant(): Promise<string> {
      return 'shared';
    }
  }

  it.each([true, false])(
    'takes its own lock, as over a wire (inheritAppConfig: %s)',
    async (inheritAppConfig) => {
      const strategy = new InMemory();
      const { app, locks } = await start('express', { controllers: [Messages] }, (it) => {
        it.useGlobalInterceptors(new Around(it.get(LockService)));
        it.connectMicroservice({ strategy }, { inheritAppConfig });
      });
      await app.startAllMicroservices();
      await locks.withLock('stock', async () => {
        expect(await strategy.ask('stock')).toBe('busy');
        expect(locks.current('stock')).toBeDefined();
      });
      // What an interceptor of the message holds around the handler is shared all the same.
      const sent = locks.withLock('stock', () => strategy.ask('tenant'));
      expect(await sent).toBe('shared');
    },
  );
});

describe('GraphQL', () => {
  const queue = new OneSlot();

  @ObjectType()
  class Answer {
    @Field(() => Int)
    depth = 0;

    @Field(() => Int)
    nested?: number;
  }

  @Resolver(() => Answer)
  class Answers {
    constructor(private readonly locks: LockService) {}

    @Query(() => Answer)
    @Locked('stock', { waitMs: 0 })
    async answer(): Promise<Answer> {
      return Object.assign(new Answer(), { depth: this.locks.current('stock')?.depth });
    }

    @ResolveField(() => Int)
    @Locked('stock', { waitMs: 0 })
    async nested(): Promise<number | undefined> {
      return this.locks.current('stock')?.depth;
    }
  }

  const query = async (url: string): Promise<unknown> =>
    (await ask(`${url}/graphql`, '{ answer { depth nested } }')).json();

  it.each(Object.entries(SERVERS))(
    'with %s shares what the request holds, and nothing that another caller holds',
    async (_name, { adapter, module }) => {
      let around: (goOn: () => void, response: { once(event: 'close', listener: () => void): void }) => void;
      const { app, locks } = await start(
        adapter,
        { imports: [DistributedLockModule.forRoot({}), module()], providers: [Answers] },
        (it) => {
          it.use(
            (
              _request: unknown,
              response: { once(event: 'close', listener: () => void): void },
              goOn: () => void,
            ) => around(goOn, response),
          );
        },
      );
      const url = await app.getUrl();
      around = (goOn, response) => {
        void locks.withLock('stock', async () => {
          const over = new Promise<void>((resolve) => response.once('close', resolve));
          goOn();
          await over;
        });
      };
      expect(await query(url)).toEqual({ data: { answer: { depth: 1, nested: 1 } } });

      around = (goOn) => void queue.add(async () => goOn());
      const refused = locks.withLock('stock', async () => {
        let goOn = (): void => undefined;
        const own = queue.add(() => new Promise<void>((resolve) => (goOn = resolve)));
        const answer = elsewhere.runInAsyncScope(query, undefined, url);
        await until(() => queue.length > 0);
        goOn();
        await own;
        return answer;
      });
      expect(JSON.stringify(await refused)).toContain('LOCK_WAIT_TIMEOUT');
    },
  );
});

/** As another process would call it. */
const elsewhere = new AsyncResource('elsewhere');

describe('an application that starts under a lock', () => {
  @Controller()
  class Handlers {
    constructor(private readonly locks: LockService) {}

    @Get('locked')
    @Locked('boot', BUSY)
    @MessagePattern('locked')
    async locked(): Promise<string> {
      return 'shared';
    }

    @Get('plain')
    async plain(): Promise<string> {
      return (await this.locks.tryAcquire('boot')) ? 'shared' : 'busy';
    }
  }

  @WebSocketGateway()
  class Gateway {
    @SubscribeMessage('locked')
    @Locked('boot', { ...BUSY, onBusy: () => ({ event: 'answer', data: 'busy' }) })
    async locked(): Promise<{ event: string; data: string }> {
      return { event: 'answer', data: 'shared' };
    }
  }

  @Injectable()
  class Jobs {
    readonly seen: string[] = [];

    @Interval(10)
    @Locked('boot', BUSY)
    async tick(): Promise<string> {
      this.seen.push('shared');
      return 'shared';
    }

    /** As in a handler that runs the job by hand, under its lock. */
    @Locked('by hand')
    async byHand(): Promise<number | undefined> {
      return this.underHand();
    }

    @Interval(1e6)
    @Locked('by hand', { waitMs: 0 })
    async underHand(@CurrentLock() lock?: Lock): Promise<number | undefined> {
      return lock?.depth;
    }
  }

  @Processor('jobs')
  class Worker extends WorkerHost {
    @Locked('boot', BUSY)
    async process(_job: Job): Promise<string> {
      return 'shared';
    }
  }

  const redis = new URL(String(process.env['REDIS_URL']));
  const connection = { host: redis.hostname, port: Number(redis.port) };

  /** Everything of it is opened in a flow that holds the key `boot`. */
  const startUnderLock = async () => {
    const module = await Test.createTestingModule({
      imports: [
        DistributedLockModule.forRoot({ shutdownGraceMs: 0 }),
        ScheduleModule.forRoot(),
        BullModule.forRoot({ connection, prefix: `flow-${process.pid}` }),
        BullModule.registerQueue({ name: 'jobs' }),
      ],
      controllers: [Handlers],
      providers: [Gateway, Jobs, Worker],
    }).compile();
    const app = module.createNestApplication({ logger: ['fatal'], forceCloseConnections: true });
    apps.push(app);
    app.useWebSocketAdapter(new WsAdapter(app));
    let busy = 0;
    const locks = app.get(LockService);
    locks.events$.subscribe((event) => {
      if (event.type === 'abandoned') busy += 1;
    });
    const lock = await locks.acquire('boot');
    await lock.run(async () => {
      const tcp = { transport: Transport.TCP, options: { host: '127.0.0.1', port: 0 } } as const;
      app.connectMicroservice(tcp, { inheritAppConfig: true });
      await app.startAllMicroservices();
      await app.listen(0, '127.0.0.1');
    });
    const url = await app.getUrl();
    return { app, lock, busy: () => busy, fetch: (path: string) => fetch(`${url}${path}`) };
  };

  it('answers no request, message or job and runs no timer inside of that lock', async () => {
    const { app, fetch, lock, busy } = await startUnderLock();
    expect([await textOf(fetch('/locked')), await textOf(fetch('/plain'))]).toEqual(['busy', 'busy']);

    const { port } = app.getMicroservices()[0]!.unwrap<Server>().address() as AddressInfo;
    const options = { host: '127.0.0.1', port };
    // The client is opened under the lock as well.
    const client = await lock.run(() =>
      ClientProxyFactory.create({ transport: Transport.TCP, options } as never),
    );
    expect(await lock.run(() => firstValueFrom(client.send('locked', {})))).toBe('busy');
    client.close();

    const socket = await lock.run(async () => connect(await app.getUrl()));
    socket.send(JSON.stringify({ event: 'locked' }));
    const [data] = (await next(socket, 'message')) as [Buffer];
    expect(data.toString()).toContain('busy');
    socket.close();

    const before = busy();
    const jobs = app.get(Jobs);
    await until(() => busy() > before + 2 || jobs.seen.length > 0);
    expect(jobs.seen).toEqual([]);
    expect(await jobs.byHand()).toBe(1);

    const queue = app.get<Queue>(getQueueToken('jobs'));
    const job = await queue.add('one', {});
    await until(async () => (await queue.getJob(job.id as string))?.returnvalue !== null);
    expect((await queue.getJob(job.id as string))?.returnvalue).toBe('busy');
    await queue.obliterate({ force: true });
    expect(lock.calls).toBe(1);
    await lock.release();
    expect(await textOf(fetch('/locked'))).toBe('shared');
  });
});
