import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Body, Controller, Injectable, Logger, Param, Post } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  CurrentLock,
  DistributedLockModule,
  exclusive,
  LockConfigurationError,
  type Lock,
  Locked,
  type LockedOptions,
  lockKey,
  LockService,
  permits,
  shared,
} from 'nestjs-distributed-lock';
import { until } from '#until';
import { Stage, startApp, type StartedApp } from './stage.js';

const NOW: LockedOptions = { waitMs: 0 };

@Controller('folders/:folder')
class FolderController {
  constructor(private readonly stage: Stage) {}

  @Post()
  @Locked(exclusive('folder:<folder>'), NOW)
  async replace(@Param('folder') folder: string): Promise<string> {
    await this.stage.reach(`folder ${folder}`);
    return 'replaced';
  }

  @Post('files/:id')
  @Locked([shared('folder:<folder>'), 'file:<id>', permits('bank', 10)], NOW)
  async write(
    @Param('folder') _folder: string,
    @Param('id') id: string,
    @CurrentLock() lock: Lock,
  ): Promise<readonly string[]> {
    await this.stage.reach(`file ${id}`);
    return lock.keys;
  }

  /** Each element of a list has the claim of its template. */
  @Post('reads')
  @Locked([shared('file:<body.ids[]|trim>'), permits('readers:<folder>', 2)], { mode: 'exclusive' })
  async read(
    @Param('folder') _folder: string,
    @Body('ids') ids: readonly string[],
    @CurrentLock() lock: Lock,
  ): Promise<readonly string[]> {
    await this.stage.reach(`read ${ids.join()}`);
    return lock.keys;
  }

  @Post('by-function')
  @Locked((folder: string, write: boolean) => [
    write ? exclusive(lockKey`folder:${folder}`) : shared(lockKey`folder:${folder}`),
    'log',
  ])
  async byFunction(@Param('folder') folder: string, @Body('write') write: boolean): Promise<string> {
    await this.stage.reach(`function ${folder}`);
    return String(write);
  }
}

describe('keys with claims of their own in @Locked, over HTTP', () => {
  let started: StartedApp;
  beforeAll(async () => {
    started = await startApp('express', { controllers: [FolderController] });
  });
  afterAll(() => started.app.close());

  const post = (path: string, body: object = {}): Promise<Response> =>
    started.fetch(`/folders/1${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
  const held = (): Readonly<Record<string, string>> =>
    Object.fromEntries(started.locks.held().map(({ key, mode }) => [key, mode]));

  it('two writers of different files of one folder run together, and a writer of the folder excludes them', async () => {
    const { stage } = started;
    const writes = [post('/files/8'), post('/files/9')];
    await until(() => stage.isAt('file 8') && stage.isAt('file 9'));
    expect(held()).toEqual({
      'folder:1': 'shared',
      'file:8': 'exclusive',
      'file:9': 'exclusive',
      bank: 'permits',
    });
    expect((await post('')).status).toBe(423);
    expect((await post('/files/8')).status).toBe(423);
    stage.go('file 8');
    stage.go('file 9');
    const answers = await Promise.all(writes);
    expect(await answers[0]?.json()).toEqual(['folder:1', 'file:8', 'bank']);
    expect(answers[1]?.status).toBe(201);
    const replaced = post('');
    await until(() => stage.isAt('folder 1'));
    expect((await post('/files/8')).status).toBe(423);
    stage.go('folder 1');
    expect(await (await replaced).text()).toBe('replaced');
  });

  it('each element of a list is held by the claim of its template, whatever the options say', async () => {
    const { stage } = started;
    const read = post('/reads', { ids: ['8', ' 9 '] });
    await until(() => stage.isAt('read 8, 9 '));
    expect(held()).toEqual({ 'file:8': 'shared', 'file:9': 'shared', 'readers:1': 'permits' });
    stage.go('read 8, 9 ');
    expect(await (await read).json()).toEqual(['file:8', 'file:9', 'readers:1']);
  });

  it('a key function may give them', async () => {
    const { stage } = started;
    const write = post('/by-function', { write: true });
    await until(() => stage.isAt('function 1'));
    expect(held()).toEqual({ 'folder:1': 'exclusive', log: 'exclusive' });
    stage.go('function 1');
    expect(await (await write).text()).toBe('true');
    const read = post('/by-function', { write: false });
    await until(() => stage.isAt('function 1'));
    expect(held()).toEqual({ 'folder:1': 'shared', log: 'exclusive' });
    stage.go('function 1');
    expect(await (await read).text()).toBe('false');
  });
});

@Injectable()
class Exports {
  most = 0;
  private running = 0;

  @Locked([permits('customer:<customer>', 1), permits('total', 2)])
  async run(customer: string): Promise<string> {
    this.running += 1;
    this.most = Math.max(this.most, this.running);
    await new Promise((resolve) => setTimeout(resolve, 2));
    this.running -= 1;
    return customer;
  }

  @Locked(shared('report:<0>'))
  async modes(_id: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock?.mode;
  }

  // A client may send this in place of a key, and must not choose how it is held.
  @Locked((key: unknown) => key as string)
  async of(key: unknown): Promise<unknown> {
    return key;
  }
}

describe('keys with claims of their own in @Locked of a provider', () => {
  it('keep several limits in one call', async () => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot()],
      providers: [Exports],
    }).compile();
    await module.init();
    const exports_ = module.get(Exports);
    const customers = Array.from({ length: 12 }, (_, i) => `${i % 4}`);
    expect(await Promise.all(customers.map((it) => exports_.run(it)))).toEqual(customers);
    expect(exports_.most).toBe(2);
    expect(await exports_.modes('1')).toBe('shared');
    await expect(exports_.of({ key: 'a', mode: 'shared' })).rejects.toThrow('gave no string and no list');
    expect(module.get(LockService).held()).toEqual([]);
    await module.close();
  });
});

describe('a mistake in a claim of @Locked', () => {
  const decorate = (key: unknown, options: LockedOptions = {}) => {
    class Some {
      async some(_id: string): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Some.prototype, 'some');
    return () =>
      Reflect.apply(Locked, undefined, [key, options])(Some.prototype, 'some', descriptor as never);
  };

  it.each<[string, () => unknown]>([
    [`@Locked on Some.some: onBusy: 'takeover'`, decorate(shared('a:<id>'), { onBusy: 'takeover' })],
    ['it is not for permits (3)', decorate(['a', permits('b', 3)], { onBusy: 'takeover' })],
    ['has an unclosed "<" at position 2', decorate([shared('a:<id'), 'b'])],
    ['is empty', decorate(exclusive(''))],
    ['it was given a list with something else in it', decorate(['a', { key: 'b', mode: 'shared' }])],
    ['it was given an object', decorate({ key: 'b', mode: 'shared' })],
  ])('is said when the class is loaded: %s', (message, load) => {
    expect(load).toThrow(LockConfigurationError);
    expect(load).toThrow(message);
  });

  it('is said at boot, if the template has a name that the method does not have', async () => {
    @Injectable()
    class Some {
      @Locked([shared('a:<nobody>'), 'b'])
      async some(_id: string): Promise<void> {}
    }
    const imports = [DistributedLockModule.forRoot()];
    const module = await Test.createTestingModule({ imports, providers: [Some] }).compile();
    await expect(module.init()).rejects.toThrow('unknown <nobody> in "a:<nobody>"');
  });

  it('is warned of, if a key that one call alone may hold is the same for every request', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    @Controller('orders')
    class Orders {
      @Post(':id')
      @Locked([shared('orders'), permits('bank', 3)])
      async fine(@Param('id') id: string): Promise<string> {
        return id;
      }

      @Post(':id/all')
      @Locked([shared('orders'), 'log'])
      async all(@Param('id') id: string): Promise<string> {
        return id;
      }
    }
    const imports = [DistributedLockModule.forRoot({ logger: true })];
    const { app } = await startApp('express', { imports, controllers: [Orders] });
    const told = warn.mock.calls.map(([text]) => String(text)).filter((text) => text.includes('Orders.'));
    await app.close();
    warn.mockRestore();
    expect(told).toHaveLength(1);
    expect(told[0]).toContain('Orders.all: the key "log" is the same for every "id" of the route');
  });
});
