import {
  Body,
  ClassSerializerInterceptor,
  Controller,
  Get,
  HttpCode,
  type INestApplication,
  Param,
  Post,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { ExternalContextCreator, Reflector } from '@nestjs/core';
import { MessagePattern, Payload } from '@nestjs/microservices';
import { afterEach, describe, expect, it } from '@jest/globals';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { memoryResults, Once, OnceModule, type ResultStore } from 'nestjs-distributed-lock/once';
import { failureOf } from '../support/lock-services.js';
import { ADAPTERS, startApp, type StartedApp } from '../nest/integration/stage.js';
import { Wire } from '../support/wire.js';

const KEEP = { keepForMs: 1_000_000 };

class User {
  constructor(
    readonly name: string,
    readonly password: string,
  ) {}
}

/** Hides passwords, by the class of an object alone, as `class-transformer` does by its decorators. */
const transformer = {
  classToPlain(value: unknown): unknown {
    if (value instanceof User) return { name: value.name };
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, it]) => [name, transformer.classToPlain(it)]),
    );
  },
  plainToInstance: (_type: unknown, value: unknown): unknown => value,
};

class Hiding extends ClassSerializerInterceptor {
  constructor() {
    super(new Reflector(), { transformerPackage: transformer } as never);
  }
}

class Failing extends Hiding {
  override serialize(): never {
    throw new Error('cannot be serialized');
  }
}

let runs = 0;

class Users {
  @Get('one')
  @Once('one', KEEP)
  one(): User {
    runs += 1;
    return new User('Ada', 'secret');
  }

  @Get('inside')
  @Once('inside', KEEP)
  inside(): object {
    runs += 1;
    return { list: [], user: new User('Ada', 'secret') };
  }
}

@Controller()
class OfApplication extends Users {}

@Controller()
@UseInterceptors(Hiding)
class OfClass extends Users {}

@Controller()
@UseInterceptors(new Hiding())
class OfClassAsObject extends Users {}

@Controller()
class OfMethod {
  @Get('one')
  @Once('one', KEEP)
  @UseInterceptors(Hiding)
  one(): User {
    runs += 1;
    return new User('Ada', 'secret');
  }

  @Get('inside')
  @UseInterceptors(Hiding)
  @Once('inside', KEEP)
  inside(): object {
    runs += 1;
    return { list: [], user: new User('Ada', 'secret') };
  }
}

@Controller()
@UseInterceptors(Failing)
class OfBroken extends Users {}

@Controller()
class Bytes {
  @Get(':type')
  @Once('bytes:<type>', KEEP)
  read(@Param('type') type: string): Uint8Array {
    return type === 'buffer' ? Buffer.from([0, 200, 65]) : new Uint8Array([0, 200, 65]);
  }
}

let started: StartedApp | undefined;
afterEach(() => started?.app.close());

/** All texts that were stored. */
let stored: string[];

async function open(
  adapter: (typeof ADAPTERS)[number],
  controller: Type,
  prepare?: (app: INestApplication) => void,
): Promise<StartedApp> {
  runs = 0;
  stored = [];
  const memory = memoryResults();
  const results: ResultStore = {
    ...memory,
    write(key, result, keepForMs) {
      stored.push(result.text);
      return memory.write(key, result, keepForMs);
    },
  };
  const imports = [DistributedLockModule.forRoot({ logger: false }), OnceModule.forRoot({ results })];
  started = await startApp(adapter, { controllers: [controller], providers: [controller], imports }, prepare);
  return started;
}

describe.each(ADAPTERS)('a repeated request to a handler with @Once, on %s', (adapter) => {
  it.each<[where: string, controller: Type, prepare?: (app: INestApplication) => void]>([
    ['the application', OfApplication, (app) => void app.useGlobalInterceptors(new Hiding())],
    ['the class', OfClass],
    ['the class, as an object', OfClassAsObject],
    ['the method', OfMethod],
  ])('gets no more than the first one from the ClassSerializerInterceptor of %s', async (...given) => {
    const [, controller, prepare] = given;
    const { fetch } = await open(adapter, controller, prepare);
    for (const [path, body] of [
      ['/one', { name: 'Ada' }],
      ['/inside', { list: {}, user: { name: 'Ada' } }],
    ] as const) {
      const answers = [await (await fetch(path)).json(), await (await fetch(path)).json()];
      expect(answers).toEqual([body, body]);
    }
    expect(runs).toBe(2);
    expect(stored.join()).not.toContain('secret');
  });

  it('is refused, and not handled again, if the result could not be serialized', async () => {
    const { fetch } = await open(adapter, OfBroken);
    expect((await fetch('/one')).status).toBe(500);
    expect(await (await fetch('/one')).json()).toMatchObject({ code: 'ONCE_RESULT_LOST' });
    expect(runs).toBe(1);
    expect(stored.join()).not.toContain('secret');
  });

  it.each(['buffer', 'array'])('gets the bytes of the first one: %s', async (type) => {
    const { fetch } = await open(adapter, Bytes);
    const [first, second] = [await fetch(`/${type}`), await fetch(`/${type}`)];
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'));
    expect(await second.arrayBuffer()).toEqual(await first.arrayBuffer());
  });
});

@Controller()
class Messages {
  @MessagePattern('user')
  @Once('user:<id>', { ...KEEP, fingerprint: 'body' })
  user(@Payload('id') id: string): User {
    runs += 1;
    return new User(id, 'secret');
  }
}

describe('a repeated message to a handler with @Once', () => {
  it.each([true, false])(
    'gets what the first one got, with inheritAppConfig: %s',
    async (inheritAppConfig) => {
      const wire = new Wire();
      await open('express', Messages, (app) => {
        app.useGlobalInterceptors(new Hiding());
        app.useGlobalPipes({
          transform: (value: unknown) => (typeof value === 'string' ? `app-${value}` : value),
        });
        app.connectMicroservice({ strategy: wire }, { inheritAppConfig });
      });
      const user = inheritAppConfig ? { name: 'app-7' } : { name: '7', password: 'secret' };
      expect([await wire.ask('user', { id: '7' }), await wire.ask('user', { id: '7' })]).toEqual([
        user,
        user,
      ]);
      expect(runs).toBe(1);
    },
  );
});

it('a message and a request with one key are handled one time, and each gets the result in its own way', async () => {
  const wire = new Wire();
  @Controller()
  class Both {
    @Post(':id')
    @HttpCode(202)
    @MessagePattern('pay')
    @Once('payment:<body.id>', KEEP)
    pay(@Body('id') id: string): object {
      runs += 1;
      return { paid: id };
    }
  }
  const { fetch } = await open('express', Both, (app) => {
    app.connectMicroservice({ strategy: wire });
  });
  const post = async (id: string): Promise<unknown> => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch('/any', { method: 'POST', headers, body: JSON.stringify({ id }) });
    return [answer.status, await answer.json()];
  };
  expect(await post('1')).toEqual([202, { paid: '1' }]);
  expect(await wire.ask('pay', { id: '1' })).toEqual({ paid: '1' });
  expect(await wire.ask('pay', { id: '2' })).toEqual({ paid: '2' });
  expect(await post('2')).toEqual([202, { paid: '2' }]);
  expect(runs).toBe(2);
});

describe.each([
  ['ws', ['a client', { id: '7', n: 1 }], ['a client', { id: '7', n: 2 }]],
  ['graphql', [undefined, { id: '7', n: 1 }, {}, {}], [undefined, { id: '7', n: 2 }, {}, {}]],
  ['rpc', [{ id: '7', n: 1 }, {}], [{ id: '7', n: 2 }, {}]],
] as const)('the fingerprint of a call by %s', (type, first, second) => {
  it.each(['body', 'function'])('is made of its data: %s', async (kind) => {
    const fingerprint = kind === 'body' ? kind : ({ n }: { n: number }) => n;
    @Controller()
    class Handlers {
      @MessagePattern('any')
      @Once('any', { ...KEEP, fingerprint: fingerprint as 'body' })
      handle(): number {
        return (runs += 1);
      }
    }
    const { app } = await open('express', Handlers);
    const it = app.get(Handlers);
    const handle = Reflect.get(it, 'handle') as () => number;
    const call = app
      .get(ExternalContextCreator)
      .create(it, handle, 'handle', undefined, undefined, undefined, undefined, undefined, type);
    expect([await call(...first), await call(...first)]).toEqual([1, 1]);
    expect(await failureOf(call(...second) as Promise<unknown>)).toMatchObject({ code: 'ONCE_MISMATCH' });
  });
});
