import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Injectable,
  Scope,
  UsePipes,
  type INestApplication,
  type PipeTransform,
  type Type,
} from '@nestjs/common';
import { APP_PIPE } from '@nestjs/core';
import { MessagePattern, Payload, Server, type CustomTransportStrategy } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { CurrentLock, DistributedLockModule, Locked, type Lock } from 'nestjs-distributed-lock';
import { isObservable, lastValueFrom } from 'rxjs';

/** Marks what has gone over it. */
class Through implements PipeTransform {
  constructor(private readonly name: string) {}

  transform(value: unknown): unknown {
    return typeof value === 'string' ? `${value}-${this.name}` : value;
  }
}

/** A transport inside this process. */
class Wire extends Server implements CustomTransportStrategy {
  listen(done: () => void): void {
    done();
  }

  close(): void {}
  on(): void {}
  unwrap<T>(): T {
    return undefined as T;
  }

  async ask(pattern: string, data: unknown): Promise<unknown> {
    const answer: unknown = await this.getHandlerByPattern(pattern)?.(data, {});
    return isObservable(answer) ? lastValueFrom(answer) : answer;
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

async function appWith(cls: Type<unknown>, scopedPipe = false): Promise<INestApplication> {
  const module = await Test.createTestingModule({
    imports: [DistributedLockModule.forRoot({ logger: false })],
    controllers: [cls],
    providers: scopedPipe ? [{ provide: APP_PIPE, useClass: ScopedPipe }] : [],
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
    const it = await appWith(ScopedMessages, true);
    const wire = new Wire();
    it.connectMicroservice({ strategy: wire }, { inheritAppConfig });
    await it.init();
    expect(await wire.ask('sell', { id: '7' })).toMatchObject({ key, id: key.slice('goods:'.length) });
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
