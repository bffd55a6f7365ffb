import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Duplex, Writable } from 'node:stream';
import { Controller, Inject } from '@nestjs/common';
import { GrpcMethod, GrpcStreamCall, Payload } from '@nestjs/microservices';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { map, timer, type Observable } from 'rxjs';
import { until } from '#until';
import { Stage } from '../../integration/stage.js';
import { startCalls, type RunningCalls } from './calls.js';

interface Item {
  readonly id: string;
  readonly text?: string;
}

/** The server's side of a call. */
interface Call extends Duplex {
  readonly cancelled: boolean;
}

type Callback = (error: unknown, item?: Item) => void;

@Controller()
class Calls {
  constructor(
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  private watch(call: Call): void {
    const over = (): void => {
      if (!this.stage.log.includes('over')) this.stage.note('over');
    };
    for (const event of ['cancelled', 'close']) call.on(event, over);
  }

  @GrpcMethod('Calls')
  @Locked('calls:<id>', { waitMs: 0 })
  async unary(@Payload('id') id: string): Promise<Item> {
    if (id === 'crash') throw new Error('of the handler');
    return { id, text: String(this.locks.current()?.key) };
  }

  @GrpcMethod('Calls')
  @Locked('down:<id>')
  async down(@Payload('id') id: string): Promise<Item> {
    return { id };
  }

  @GrpcMethod('Calls')
  @Locked('calls:<id>')
  async late(@Payload('id') id: string): Promise<Item> {
    this.stage.note('ran late');
    return { id };
  }

  @GrpcMethod('Calls')
  @Locked('calls:<id>')
  many(@Payload('id') id: string): Observable<Item> {
    return timer(0, 5).pipe(map(() => ({ id })));
  }

  @GrpcMethod('Calls')
  async inner(@Payload('id') id: string): Promise<Item> {
    return this.locks.withLock(`calls:${id}`, { waitMs: 0 }, () => ({ id }));
  }

  @GrpcMethod('Calls')
  async mistake(@Payload('id') id: string): Promise<Item> {
    return this.locks.withLock([], () => ({ id }));
  }

  @GrpcStreamCall('Calls')
  @Locked('calls', { waitMs: 0 })
  async both(call: Call): Promise<void> {
    this.watch(call);
    call.resume();
    const send = async (): Promise<void> => {
      call.write({ id: 'one' });
      await this.stage.reach('part');
      if (this.stage.log.includes('fail')) {
        call.emit('error', Object.assign(new Error('the source failed'), { code: 9 }));
        return;
      }
      call.write({ id: 'two' });
      call.end();
    };
    void send();
    this.stage.note('returned');
  }

  @GrpcStreamCall('Calls')
  @Locked('calls')
  async lost(call: Call): Promise<void> {
    call.resume();
    call.write({ id: 'one' });
    void this.stage.reach('part').then(() => call.end());
    this.stage.note('returned');
  }

  @GrpcStreamCall('Calls')
  @(Locked('calls', { waitMs: 0 }) as MethodDecorator)
  collect(call: Call, answer: Callback): void {
    this.watch(call);
    call.resume();
    const send = async (): Promise<void> => {
      await this.stage.reach('part');
      if (this.stage.log.includes('fail')) answer(Object.assign(new Error('the source failed'), { code: 9 }));
      else answer(null, { id: 'one two' });
    };
    void send();
    this.stage.note('returned');
  }
}

let running: RunningCalls;
let log: string[];

beforeAll(async () => {
  running = await startCalls(Calls);
  running.locks.events$.subscribe(({ type }) => {
    if (type === 'released') running.stage.note('released');
  });
  log = running.stage.log as string[];
});
beforeEach(() => {
  log.length = 0;
});
afterAll(() => running.close());

interface Outcome {
  readonly item?: Item;
  readonly code?: number;
  readonly details?: string;
  readonly lockCode?: unknown;
}

interface Failure {
  readonly code: number;
  readonly details: string;
  readonly metadata: { get(name: string): unknown[] };
}

const outcomeOf = (error: Failure | null, item?: Item): Outcome =>
  error
    ? { code: error.code, details: error.details, lockCode: error.metadata.get('lock-code')[0] }
    : { ...(item && { item }) };

const ask = (name: string, id: string): Promise<Outcome> =>
  new Promise((resolve) => {
    running.client[name]?.({ id }, (error: Failure | null, item: Item) => resolve(outcomeOf(error, item)));
  });

const method = (name: string): ((...args: unknown[]) => unknown) =>
  running.client[name]?.bind(running.client) as (...args: unknown[]) => unknown;

/** Opens a call of `name`, and gets its outcome when it has ended. */
function open(name: 'both' | 'lost' | 'collect'): { readonly outcome: Promise<Outcome>; leave(): void } {
  if (name === 'collect') {
    let call: Writable & { cancel(): void };
    const outcome = new Promise<Outcome>((resolve) => {
      call = method(name)((error: Failure | null, item: Item) =>
        resolve(outcomeOf(error, item)),
      ) as typeof call;
      call.end();
    });
    return { outcome, leave: () => call.cancel() };
  }
  const call = method(name)() as Duplex & { cancel(): void };
  const ids: string[] = [];
  const outcome = new Promise<Outcome>((resolve) => {
    call.on('data', ({ id }: Item) => ids.push(id));
    call.on('end', () => resolve({ item: { id: ids.join(' '), text: '' } }));
    call.on('error', (error) => resolve(outcomeOf(error as unknown as Failure)));
  });
  call.end();
  return { outcome, leave: () => call.cancel() };
}

describe('a lock error over gRPC has the status that says what the client can do', () => {
  it.each([
    ['unary', 'held', 10, 'LOCK_WAIT_TIMEOUT'],
    ['down', '1', 14, 'LOCK_STORE'],
    ['unary', '', 3, 'LOCK_KEY'],
    ['inner', 'held', 10, 'LOCK_WAIT_TIMEOUT'],
    ['mistake', 'any', 13, undefined],
    ['unary', 'crash', 2, undefined],
  ])('%s of "%s": %i', async (name, id, code, lockCode) => {
    const mine = await running.locks.acquire('calls:held');
    const outcome = await ask(name, id).finally(() => void mine.release());
    expect(outcome).toMatchObject({ code, ...(lockCode && { lockCode }) });
    expect(outcome.details).not.toMatch(/held by|down:|secret/);
    expect(outcome.details?.includes(': data.id is missing or not valid.')).toBe(lockCode === 'LOCK_KEY');
  });
});

describe('a call of gRPC', () => {
  it('runs under its lock', async () => {
    expect(await ask('unary', '1')).toEqual({ item: { id: '1', text: 'calls:1' } });
  });

  it('that its client cancels leaves the queue, and never runs', async () => {
    const mine = await running.locks.acquire('calls:1');
    const ended: string[] = [];
    const events = running.locks.events$.subscribe(({ type }) => ended.push(type));
    const call = method('late')({ id: '1' }, () => undefined) as { cancel(): void };
    await until(() => ended.includes('asked'));
    call.cancel();
    await until(() => ended.includes('abandoned'));
    await mine.release();
    await until(() => running.isFree('calls:1'));
    expect(log).not.toContain('ran late');
    events.unsubscribe();
  });
});

describe.each(['both', 'collect'] as const)('a call that its handler answers itself: %s', (name) => {
  it.each([
    ['it has ended', 'end'],
    ['it has failed', 'fail'],
    ['its client has left', 'leave'],
  ] as const)('holds the lock until %s', async (_what, ending) => {
    if (ending === 'fail') log.push('fail');
    const call = open(name);
    await until(() => running.stage.isAt('part'));
    await pause(10);
    expect([log.includes('returned'), await running.isFree('calls')]).toEqual([true, false]);
    if (ending === 'leave') call.leave();
    else running.stage.go('part');
    const outcomes = { end: { item: { id: 'one two' } }, fail: { code: 9 }, leave: { code: 1 } };
    expect(await call.outcome).toMatchObject(outcomes[ending]);
    await until(() => running.isFree('calls'));
    expect(log.filter((it) => it === 'over' || it === 'released')).toEqual(['over', 'released']);
    if (ending === 'leave') running.stage.go('part');
  });

  it('is answered with a status while the key is busy, and no rejection is left', async () => {
    const mine = await running.locks.acquire('calls');
    expect(await open(name).outcome).toMatchObject({ code: 10, lockCode: 'LOCK_WAIT_TIMEOUT' });
    // Jest fails a test that leaves a rejection without a handler.
    await pause(10);
    await mine.release();
  });
});

it('a call that its handler answers itself breaks off when the lock is lost', async () => {
  const { outcome } = open('lost');
  await until(() => running.stage.isAt('part') && log.includes('returned'));
  await running.locks.forceRelease('calls');
  expect(await outcome).toMatchObject({ code: 2, lockCode: 'LOCK_LOST' });
  running.stage.go('part');
  await until(() => running.isFree('calls'));
});
