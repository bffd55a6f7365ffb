import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Inject, Param, Post } from '@nestjs/common';
import {
  DistributedLockModule,
  type DistributedLockModuleOptions,
  LockService,
  Locked,
  memoryStore,
} from 'nestjs-distributed-lock';
import { until } from '#until';
import { Stage, startApp, type StartedApp } from './stage.js';

const places: string[] = [];

@Controller()
class ToursController {
  constructor(
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  @Post('plain/:id')
  @Locked('tour:<id>', { waitMs: 50 })
  async plain(@Param('id') _id: string): Promise<void> {
    await this.stage.reach('handler');
  }

  @Post('shown/:id')
  @Locked('tour:<id>', { waitMs: 50, http: { position: true } })
  async shown(@Param('id') _id: string): Promise<void> {}

  @Post('told/:id')
  @Locked('tour:<id>', { waitMs: 50, onQueued: (position, key) => places.push(`${key} ${position}`) })
  async told(@Param('id') _id: string): Promise<void> {}

  @Post('service/:id')
  async service(@Param('id') id: string): Promise<void> {
    await this.locks.withLock(`tour:${id}`, { waitMs: 50 }, () => undefined);
  }

  @Post('unwaited/:id')
  @Locked('tour:<id>', { waitMs: 0, http: { position: true } })
  async unwaited(@Param('id') _id: string): Promise<void> {}
}

const open: StartedApp[] = [];

async function start(options: DistributedLockModuleOptions): Promise<StartedApp> {
  const imports = [DistributedLockModule.forRoot(options)];
  const started = await startApp('express', { imports, controllers: [ToursController] });
  open.push(started);
  return started;
}

/** Two of three instances with one store. A handler of the first one holds tour 1, and a caller in the third one waits for it. */
async function instances(options: DistributedLockModuleOptions): Promise<readonly StartedApp[]> {
  const store = memoryStore();
  const [first, second] = [await start({ store, ...options }), await start({ store, ...options })];
  void first.fetch('/plain/1', { method: 'POST' });
  await until(() => first.stage.isAt('handler'));
  const third = await start({ store, ...options });
  void third.locks.withLock('tour:1', { waitMs: 60_000 }, () => undefined).catch(() => undefined);
  await until(async () => (await first.locks.inspect('tour:1'))?.pending.length === 1);
  return [first, second];
}

async function answerOf(app: StartedApp, path: string): Promise<unknown> {
  const answer = await app.fetch(path, { method: 'POST' });
  return { status: answer.status, position: ((await answer.json()) as { position?: number }).position };
}

afterEach(async () => {
  for (const { stage } of open) if (stage.isAt('handler')) stage.go('handler');
  await Promise.all(open.splice(0).map(({ app }) => app.close()));
  places.splice(0);
});

describe('the place in line of a request', () => {
  it('is in its 423 if @Locked asks for that, and counts those that wait in other instances', async () => {
    const [first, second] = await instances({});
    expect(await answerOf(second!, '/shown/1')).toEqual({ status: 423, position: 2 });
    expect(await answerOf(first!, '/shown/1')).toEqual({ status: 423, position: 1 });
    expect(await answerOf(second!, '/unwaited/1')).toEqual({ status: 423, position: undefined });
  });

  it('stays hidden unless somebody asks for it, also if onQueued gets it', async () => {
    const [, second] = await instances({});
    expect(await answerOf(second!, '/plain/1')).toEqual({ status: 423, position: undefined });
    expect(await answerOf(second!, '/told/1')).toEqual({ status: 423, position: undefined });
    expect(places).toEqual(['tour:1 2']);
  });

  it('is in every 423 of an application that asks for that, also of calls inside handlers', async () => {
    const [, second] = await instances({ http: { position: true } });
    for (const path of ['/plain/1', '/told/1', '/service/1'])
      expect(await answerOf(second!, path)).toEqual({ status: 423, position: 2 });
    expect(places).toEqual(['tour:1 2']);
  });

  it('also reaches the onQueued of the defaults', async () => {
    const onQueued = (position: number) => places.push(`default ${position}`);
    const [, second] = await instances({ http: { position: true }, defaults: { onQueued } });
    places.splice(0);
    for (const path of ['/plain/1', '/shown/1', '/told/1', '/service/1'])
      expect(await answerOf(second!, path)).toEqual({ status: 423, position: 2 });
    expect(places).toEqual(['default 2', 'default 2', 'tour:1 2', 'default 2']);
  });
});
