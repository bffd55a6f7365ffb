import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Logger,
  Param,
  Post,
  UsePipes,
  type INestApplication,
  type LoggerService,
  type ModuleMetadata,
  type PipeTransform,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import ts from 'typescript';
import {
  CurrentLock,
  DistributedLockModule,
  InjectLockService,
  LockConfigurationError,
  LockDefaults,
  Locked,
  LockService,
  LockSignal,
  lockKey,
  type Lock,
  type DistributedLockModuleOptions,
} from 'nestjs-distributed-lock';
import request from 'supertest';

let app: INestApplication | undefined;

async function boot(
  metadata: ModuleMetadata,
  options: DistributedLockModuleOptions = {},
): Promise<INestApplication> {
  const module = await Test.createTestingModule({
    imports: [DistributedLockModule.forRoot({ shutdownGraceMs: 0, ...options })],
    ...metadata,
  }).compile();
  app = module.createNestApplication({ logger: false });
  return app.init();
}

afterEach(async () => {
  await app?.close();
  app = undefined;
});

describe('two @Locked', () => {
  it('on one handler stop the boot, with the one to write for both keys', async () => {
    @Controller()
    class Goods {
      @Get(':id')
      @Locked('goods:<id>')
      @Locked('all')
      async sell(@Param('id') id: string): Promise<string> {
        return id;
      }
    }
    await expect(boot({ controllers: [Goods] })).rejects.toThrow(
      "@Locked on Goods.sell: there are two on one handler, and only the upper one is around its pipes and interceptors. Write one for both keys: @Locked(['goods:<id>', 'all']).",
    );
  });

  it('on one plain method are both held, the upper one first', async () => {
    @Injectable()
    class Jobs {
      constructor(readonly locks: LockService) {}

      @Locked('outer:<0>')
      @Locked('inner:<id>')
      async run(id: string): Promise<unknown[]> {
        return [this.locks.current(`outer:${id}`)?.key, this.locks.current(`inner:${id}`)?.key];
      }
    }
    await boot({ providers: [Jobs] });
    expect(await app?.get(Jobs).run('7')).toEqual(['outer:7', 'inner:7']);
  });
});

describe('a static method beside a handler of the same name', () => {
  @Controller()
  class Goods {
    @Get(':id')
    @Locked('goods:<id>')
    async sell(@Param('id') id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
      return { id, key: lock?.key };
    }

    @Locked('static:<sku>')
    static async sell(sku: string, count: number, @CurrentLock() lock?: Lock): Promise<unknown> {
      return { sku, count, key: lock?.key };
    }
  }

  it('has its own key and its own arguments, and so has the handler', async () => {
    await boot({ controllers: [Goods] });
    const answer = await request(app?.getHttpServer()).get('/7');
    expect(answer.body).toEqual({ id: '7', key: 'goods:7' });
    expect(await Goods.sell('x', 2)).toEqual({ sku: 'x', count: 2, key: 'static:x' });
  });

  it('is checked when the application starts', async () => {
    @Injectable()
    class Mistaken {
      @Locked('static:<nosuch>')
      static async sell(sku: string): Promise<string> {
        return sku;
      }
    }
    await expect(boot({ providers: [Mistaken] })).rejects.toThrow(
      '@Locked on Mistaken.sell: unknown <nosuch> in "static:<nosuch>" at position 7; the method\'s arguments are: sku.',
    );
  });
});

describe('a method with a symbol for a name', () => {
  const secret = Symbol('secret');

  it('is checked when the application starts, also a static one', async () => {
    class OfObjects {
      @Locked('goods:<sku>')
      async [secret](id: string): Promise<string> {
        return id;
      }
    }
    class Static {
      @Locked('goods:<sku>')
      static async [secret](id: string): Promise<string> {
        return id;
      }
    }
    for (const provider of [OfObjects, Static]) {
      await expect(boot({ providers: [provider] })).rejects.toThrow(
        `@Locked on ${provider.name}.Symbol(secret): unknown <sku> in "goods:<sku>"`,
      );
    }
  });

  it('needs @Locked for @CurrentLock', async () => {
    class Unlocked {
      async [secret](@CurrentLock() lock?: Lock): Promise<string | undefined> {
        return lock?.key;
      }
    }
    await expect(boot({ providers: [Unlocked] })).rejects.toThrow(
      '@CurrentLock or @LockSignal on Unlocked.Symbol(secret): the method has no @Locked.',
    );
  });
});

describe('an argument behind a default value with a slash', () => {
  const after = (separator: RegExp): string => separator.source;

  it('stops the boot when a key names it, with what to write', async () => {
    @Injectable()
    class Imports {
      @Locked('import:<id>')
      async run(separator = /,/, id: string, _count: number): Promise<string> {
        return after(separator) + id;
      }
    }
    await expect(boot({ providers: [Imports] })).rejects.toThrow(
      '@Locked on Imports.run: unknown <id> in "import:<id>" at position 7; the method\'s arguments are: separator; what follows in its source text cannot be read for certain, for instance after a default value with a "/" in it: use a position, such as <1>, or a key function, (…) => lockKey`…`.',
    );
  });

  it('makes the key by its position, and by a key function; an argument in front of it by its name', async () => {
    @Injectable()
    class Imports {
      @Locked(['position:<2>', 'name:<file>'])
      async run(file: string, ratio = 1 / 2, id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        return [ratio, id, lock?.keys];
      }

      @Locked((_separator: RegExp | undefined, id: string) => lockKey`function:${id}`)
      async other(separator = /,/, id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        return [after(separator), id, lock?.key];
      }
    }
    await boot({ providers: [Imports] });
    expect(await app?.get(Imports).run('a', 1, '7')).toEqual([1, '7', ['position:7', 'name:a']]);
    expect(await app?.get(Imports).other(/;/, '7')).toEqual([';', '7', 'function:7']);
  });

  it.each([
    ['bound', ((id: string) => `goods:${id}`).bind(undefined)],
    ['a Proxy', new Proxy((id: string) => `goods:${id}`, {})],
    ['given a pattern with a slash', ({ sep = /,/ }: { sep?: RegExp }) => `goods:${after(sep)}`],
  ])('is a reason to refuse a key function of a handler, as that it is %s', async (_what, key) => {
    @Controller()
    class Goods {
      @Get(':id')
      @Locked(key as (id: string) => string)
      async sell(@Param('id') id: string): Promise<string> {
        return id;
      }
    }
    await expect(boot({ controllers: [Goods] })).rejects.toThrow(
      '@Locked on Goods.sell: it cannot be read which arguments the key function takes',
    );
  });
});

describe('standard decorators', () => {
  /** As the compiler makes it without `experimentalDecorators`. */
  function compiled(source: string): () => unknown {
    const compilerOptions = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.None };
    const { outputText } = ts.transpileModule(source, { compilerOptions });
    const names = ['Locked', 'CurrentLock', 'LockSignal', 'LockDefaults', 'InjectLockService'];
    const values = [Locked, CurrentLock, LockSignal, LockDefaults, InjectLockService];
    // oxlint-disable-next-line typescript/no-implied-eval -- what a compiler has made is to be run
    return () => new Function(...names, outputText)(...values) as unknown;
  }

  it.each([
    ['@Locked on sell', "class A { @Locked('a') async sell() {} }"],
    ['@Locked on sell', "class A { @Locked('a') static async sell() {} }"],
    ['@Locked on sell', "class A { @Locked('a') sell = async () => {} }"],
    ['@Locked on A', "@Locked('a') class A {}"],
    ['@CurrentLock on lock', 'class A { @CurrentLock() lock; }'],
    ['@LockSignal on lock', 'class A { @LockSignal() lock; }'],
    ['@LockDefaults on A', '@LockDefaults({ waitMs: 1 }) class A {}'],
    ['@InjectLockService on locks', 'class A { @InjectLockService() locks; }'],
  ])('are refused with the options of the compiler: %s', (where, source) => {
    const run = compiled(source);
    expect(run).toThrow(LockConfigurationError);
    expect(run).toThrow(`${where}: this code is compiled with standard decorators, which Nest cannot read.`);
    expect(run).toThrow('Set "experimentalDecorators": true');
  });

  it('are told from a decorator in a wrong place', () => {
    const locked = Locked('a') as unknown as (target: object) => void;
    expect(() => locked(class A {})).toThrow('@Locked on A: this is a class. Put it on the methods');
    const current = CurrentLock() as (target: object, name: undefined, index: number) => void;
    expect(() => current(class A {}, undefined, 0)).toThrow(
      '@CurrentLock on the constructor of A: it belongs on a parameter of a method.',
    );
    const defaults = LockDefaults({}) as unknown as (target: object, name: string, method: object) => void;
    expect(() => defaults({}, 'sell', {})).toThrow('@LockDefaults belongs on a class');
  });
});

describe('a wildcard of a route', () => {
  class Join implements PipeTransform {
    transform(value: unknown): unknown {
      return Array.isArray(value) ? value.join('/') : value;
    }
  }

  it('as a whole makes no key, because it is a list of segments', async () => {
    @Controller('files')
    class Files {
      @Get('*path')
      @Locked('file:<path>')
      async read(@Param('path') path: string[]): Promise<string> {
        return path.join();
      }
    }
    await boot({ controllers: [Files] });
    expect((await request(app?.getHttpServer()).get('/files/a/b')).status).toBe(400);
  });

  it('makes a key by a function, over a pipe, of one segment, or one of each', async () => {
    @Controller()
    class Files {
      @Get('function/*path')
      @Locked((path: string[]) => lockKey`file:${path.join('/')}`)
      async byFunction(@Param('path') _path: string[], @CurrentLock() lock?: Lock): Promise<unknown> {
        return lock?.keys;
      }

      @Get('pipe/*path')
      @Locked('file:<path>')
      async overPipe(@Param('path', Join) _path: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        return lock?.keys;
      }

      @Get('pipes/*path')
      @UsePipes(Join)
      @Locked('file:<path>')
      async overPipes(@Param('path') _path: string, @CurrentLock() lock?: Lock): Promise<unknown> {
        return lock?.keys;
      }

      @Get('first/*path')
      @Locked('file:<params.path.0>')
      async ofOne(@CurrentLock() lock?: Lock): Promise<unknown> {
        return lock?.keys;
      }

      @Get('each/*path')
      @Locked('file:<params.path[]>')
      async ofEach(@CurrentLock() lock?: Lock): Promise<unknown> {
        return lock?.keys;
      }
    }
    await boot({ controllers: [Files] });
    const keysOf = async (path: string) => (await request(app?.getHttpServer()).get(path)).body as unknown;
    expect(await keysOf('/function/a/b')).toEqual(['file:a%2Fb']);
    expect(await keysOf('/pipe/a/b')).toEqual(['file:a%2Fb']);
    expect(await keysOf('/pipes/a/b')).toEqual(['file:a%2Fb']);
    expect(await keysOf('/first/a/b')).toEqual(['file:a']);
    expect(await keysOf('/each/a/b')).toEqual(['file:a', 'file:b']);
  });
});

describe('a constant key of a handler that reads a route parameter', () => {
  @Controller()
  class Goods {
    @Post('sell/:id')
    @Locked('goods')
    async sell(@Param('id') id: string): Promise<string> {
      return id;
    }

    @Post('meant/:id')
    @Locked(() => 'goods')
    async meant(@Param('id') id: string): Promise<string> {
      return id;
    }

    @Post('few/:id')
    @Locked('goods:few', { permits: 3 })
    async few(@Param('id') id: string): Promise<string> {
      return id;
    }

    @Post('right/:id')
    @Locked(['all', 'goods:<id>'])
    async right(@Param('id') id: string): Promise<string> {
      return id;
    }

    @Post('nightly')
    @Locked('nightly')
    async nightly(): Promise<void> {}
  }

  const LINE =
    'DistributedLock: @Locked on Goods.sell: the key "goods" is the same for every "id" of the route, so all of its requests wait for each other. Write "goods:<id>" for a lock of its own for each. If one lock is meant, give a function: () => \'goods\'.';
  const warned: string[] = [];
  const silent = (): void => undefined;
  const logger: LoggerService = {
    log: silent,
    error: silent,
    warn: (message: string, context: string) => warned.push(`${context}: ${message}`),
  };

  it.each([
    [true, 1],
    ['error', 0],
    [false, 0],
  ] as const)('is said once at boot, unless it is meant: logger %p', async (level, lines) => {
    warned.length = 0;
    Logger.overrideLogger(logger);
    try {
      const module = await Test.createTestingModule({
        imports: [DistributedLockModule.forRoot({ logger: level })],
        controllers: [Goods],
      })
        .setLogger(logger)
        .compile();
      app = await module.createNestApplication({ logger }).init();
      await request(app.getHttpServer()).post('/sell/7').expect(201, '7');
    } finally {
      Logger.overrideLogger(false);
    }
    expect(warned).toEqual([LINE].slice(0, lines));
  });
});
