import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { status } from '@grpc/grpc-js';
import type { INestApplication } from '@nestjs/common';
import {
  KafkaRetriableException,
  RmqContext,
  Server,
  type CustomTransportStrategy,
} from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockService, type Lock } from 'nestjs-distributed-lock';
import { firstValueFrom, from, isObservable } from 'rxjs';
import { OrderMessages, Orders } from './recipes/message-handlers.js';

/** Hands messages to the handlers as Nest's servers do. */
class Wire extends Server implements CustomTransportStrategy {
  listen(done: () => void): void {
    done();
  }

  close(): void {}

  on(): void {}

  unwrap(): never {
    throw new Error('there is no server');
  }

  async deliver(pattern: string, ...message: unknown[]): Promise<unknown> {
    const handler = [...this.messageHandlers].find(([name]) => name.includes(pattern))![1];
    const result = await (handler as (...args: unknown[]) => Promise<unknown>)(...message);
    return firstValueFrom(isObservable(result) ? result : from([result]));
  }
}

describe('the recipe for message handlers', () => {
  const wire = new Wire();
  const order = { id: '7' };
  let app: INestApplication;
  let locks: LockService;

  beforeAll(async () => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot({ logger: false })],
      controllers: [OrderMessages],
      providers: [Orders],
    }).compile();
    app = module.createNestApplication({ logger: false });
    app.connectMicroservice({ strategy: wire });
    await app.startAllMicroservices();
    await app.init();
    locks = app.get(LockService);
    // A recipe waits for two seconds, and a test does not.
    const [acquire, withLock] = [locks.acquire.bind(locks), locks.withLock.bind(locks)];
    locks.acquire = (key, options) => acquire(key, { ...options, waitMs: 0 });
    locks.withLock = ((key: string, options: object, work: () => Promise<unknown>) =>
      withLock(key, { ...options, waitMs: 0 }, work)) as LockService['withLock'];
  });
  afterAll(() => app.close());

  /** What becomes of the message while another one holds the lock. */
  async function whileBusy(deliver: () => Promise<unknown>): Promise<unknown> {
    const lock: Lock = await locks.acquire('order:7');
    const outcome = await deliver().catch((error: unknown) => error);
    await lock.release();
    return outcome;
  }

  it('a caller gets the result, or the code of the lock', async () => {
    const deliver = () => wire.deliver('order.pay', order);
    expect(await deliver()).toBe('paid 7');
    expect(await whileBusy(deliver)).toMatchObject({ status: 'error', code: 'LOCK_WAIT_TIMEOUT' });
  });

  it('a caller over gRPC gets the result, or a status', async () => {
    const call = { metadata: {}, getPeer: () => '', sendMetadata: () => undefined };
    const deliver = () => wire.deliver('"rpc":"Pay"', order, {}, call);
    expect(await deliver()).toEqual({ text: 'paid 7' });
    const refused = await whileBusy(deliver);
    expect([status.ABORTED, 'LOCK_WAIT_TIMEOUT']).toContain(Object(refused).code as unknown);
  });

  it('Kafka is told to deliver a message again that got no lock', async () => {
    const deliver = () => wire.deliver('order.placed', order);
    expect(await deliver()).toBeUndefined();
    expect(await whileBusy(deliver)).toBeInstanceOf(KafkaRetriableException);
  });

  it('RabbitMQ gets a message back that got no lock, and no other one', async () => {
    const told: unknown[][] = [];
    const channel = {
      ack: (...args: unknown[]) => told.push(['ack', ...args]),
      nack: (...args: unknown[]) => told.push(['nack', ...args]),
    };
    const deliver = () => wire.deliver('order.queued', order, new RmqContext([{ n: 1 }, channel, '']));
    await deliver();
    await whileBusy(deliver);
    expect(told).toEqual([
      ['ack', { n: 1 }],
      ['nack', { n: 1 }, false, true],
    ]);
  });
});
