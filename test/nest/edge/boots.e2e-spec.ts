import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Module,
  type ModuleMetadata,
  type OnModuleInit,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import { CurrentLock, DistributedLockModule, LockService, Locked, type Lock } from 'nestjs-distributed-lock';
import { OnlyLeader } from 'nestjs-distributed-lock/leader';
import { TestLocks } from 'nestjs-distributed-lock/testing';
import { lastValueFrom, of, type Observable } from 'rxjs';

/** What an application makes by itself, without Nest. */
class Till {
  @Locked('till')
  async open(@CurrentLock() lock?: Lock): Promise<Lock | undefined> {
    return lock;
  }
}

const NOT_RUNNING = 'no running application offers locks';
const SEVERAL = 'several applications of this process offer locks';

const open: TestingModule[] = [];

async function compile(providers: ModuleMetadata['providers'] = []): Promise<TestingModule> {
  const module = await Test.createTestingModule({
    imports: [DistributedLockModule.forRoot({ shutdownGraceMs: 0 })],
    providers,
  }).compile();
  open.push(module);
  return module;
}

function failing(when: 'onModuleInit' | 'constructor'): Type<unknown> {
  @Injectable()
  class Failing implements OnModuleInit {
    constructor() {
      if (when === 'constructor') throw new Error('no constructor');
    }

    onModuleInit(): void {
      throw new Error('no boot');
    }
  }
  return Failing;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
});

describe('a boot that fails', () => {
  it.each(['onModuleInit', 'constructor'] as const)(
    'in %s leaves nothing that a later application or a stray object finds',
    async (when) => {
      @Module({ imports: [DistributedLockModule.forRoot()], providers: [failing(when)] })
      class Broken {}
      const boot = NestFactory.createApplicationContext(Broken, { logger: false, abortOnError: false });
      await expect(boot).rejects.toThrow('no ');
      await expect(new Till().open()).rejects.toThrow(NOT_RUNNING);
      await (await compile()).init();
      expect(await new Till().open()).toMatchObject({ key: 'till' });
    },
  );

  it('by a mistake in @Locked does so, too', async () => {
    @Controller()
    class Mistaken {
      @Get()
      @Locked('a:<nosuch>')
      async handle(): Promise<void> {}
    }
    @Module({ imports: [DistributedLockModule.forRoot()], controllers: [Mistaken] })
    class Broken {}
    const app = await NestFactory.create(Broken, { logger: false });
    await expect(app.init()).rejects.toThrow('unknown <nosuch>');
    await (await compile()).init();
    expect(await new Till().open()).toMatchObject({ key: 'till' });
  });
});

describe('an object that Nest did not build', () => {
  it('has no locks in an application that is only compiled, and has them once it runs', async () => {
    const module = await compile();
    await expect(new Till().open()).rejects.toThrow(NOT_RUNNING);
    await module.init();
    expect(await new Till().open()).toMatchObject({ key: 'till' });
    await module.close();
    await expect(new Till().open()).rejects.toThrow(NOT_RUNNING);
  });

  it.each([
    ['made by a factory', { provide: Till, useFactory: () => new Till() }],
    ['given as a value', { provide: Till, useValue: new Till() }],
  ])('but that is a provider, %s, has those of its application, among several', async (_how, provider) => {
    const [one, two] = [await compile(), await compile([provider])];
    await one.init();
    await two.init();
    await expect(new Till().open()).rejects.toThrow(SEVERAL);
    const mine = await one.get(LockService).acquire('till');
    await two.get(LockService).withLock('till', async ({ fencingToken }) => {
      // Nested in the flow that holds it: the very same lock.
      expect(await two.get(Till).open()).toMatchObject({ key: 'till', fencingToken });
    });
    await mine.release();
  });

  it('but that is a provider is locked while its application boots beside one that runs', async () => {
    const running = await compile();
    await running.init();
    const other = await running.get(LockService).acquire('till');
    let key: string | undefined;
    class Early extends Till implements OnModuleInit {
      async onModuleInit(): Promise<void> {
        key = (await this.open())?.key;
      }
    }
    const booting = await compile([{ provide: Early, useFactory: () => new Early() }]);
    await booting.init();
    expect(key).toBe('till');
    await other.release();
  });
});

/** A provider that calls a method of its own before Nest has injected anything, and keeps what comes of it. */
abstract class Hasty {
  protected readonly early: Promise<unknown>[] = [];

  outcome(): Promise<readonly string[]> {
    return Promise.all(this.early.map((call) => call.then(String, (error: Error) => error.message)));
  }
}

@Injectable()
class InConstructor extends Hasty {
  constructor() {
    super();
    this.early.push(this.load(1));
  }

  @Locked('load:<id>')
  async load(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class InField extends Hasty {
  readonly first = this.early.push(this.load(1));

  @Locked('load:<id>')
  async load(id: number): Promise<number> {
    return id;
  }
}

@Injectable()
class InSubclass extends InField {}

@Injectable()
class AsStream extends Hasty {
  constructor() {
    super();
    this.early.push(lastValueFrom(this.load(1)));
  }

  @Locked('load:<id>', { stream: true })
  load(id: number): Observable<number> {
    return of(id);
  }
}

@Injectable()
class AsLeader extends Hasty {
  constructor() {
    super();
    this.early.push(this.load());
  }

  @OnlyLeader('poller')
  async load(): Promise<void> {}
}

describe('a locked method that is called in the constructor of its provider', () => {
  it.each<[Type<Hasty>, string]>([
    [InConstructor, '@Locked on InConstructor.load'],
    [InField, '@Locked on InField.load'],
    [InSubclass, '@Locked on InSubclass.load'],
    [AsStream, '@Locked on AsStream.load'],
    [AsLeader, '@OnlyLeader on AsLeader.load'],
  ])('%p is refused, and told that Nest injects after it', async (provider, where) => {
    const module = await compile([provider]);
    const [told] = await module.get(provider).outcome();
    expect(told).toMatch(new RegExp(`${where}: .* after the constructor`));
    expect(told).not.toContain('Import DistributedLockModule');
  });

  it('is refused so beside running applications, and in a unit test has the locks of the prototype', async () => {
    for (const module of [await compile(), await compile()]) await module.init();
    const module = await compile([InConstructor]);
    expect(await module.get(InConstructor).outcome()).toEqual([
      expect.stringContaining('Nest injects the locks after the constructor'),
    ]);
    await using locks = new TestLocks();
    locks.injectInto(InConstructor.prototype);
    expect(await new InConstructor().outcome()).toEqual(['1']);
  });
});
