import { describe, expect, it } from '@jest/globals';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Controller } from '@nestjs/common';
import { MessagePattern, Payload } from '@nestjs/microservices';
import { Locked } from 'nestjs-distributed-lock';
import { of, type Observable } from 'rxjs';
import { until } from '#until';
import { startRpc } from '../transports/messages.js';
import { startWs } from '../transports/sockets.js';
import type { Running } from '../transports/transport.js';

const log: string[] = [];

async function* make(): AsyncGenerator<number> {
  log.push('started');
  yield 1;
}

const web = (): ReadableStream<string> =>
  new ReadableStream({ cancel: () => void log.push('cancelled') }, { highWaterMark: 0 });

@Controller()
class Messages {
  @MessagePattern('generator')
  @Locked('k:<id>')
  async *generator(@Payload('id') _id: string): AsyncGenerator<number> {
    yield* make();
  }

  @MessagePattern('web')
  @Locked('k:<id>')
  async web(@Payload('id') _id: string): Promise<ReadableStream<string>> {
    return web();
  }

  @MessagePattern('observable')
  @Locked('k:<id>')
  observable(@Payload('id') id: string): Observable<string> {
    return of(id);
  }
}

@WebSocketGateway()
class Gateway {
  @SubscribeMessage('generator')
  @Locked('k:<id>')
  async *generator(@MessageBody('id') _id: string): AsyncGenerator<number> {
    yield* make();
  }

  @SubscribeMessage('web')
  @Locked('k:<id>')
  async web(@MessageBody('id') _id: string): Promise<ReadableStream<string>> {
    return web();
  }

  @SubscribeMessage('observable')
  @Locked('k:<id>')
  observable(@MessageBody('id') id: string): Observable<string> {
    return of(id);
  }
}

describe.each([
  ['a message pattern', (): Promise<Running> => startRpc(Messages)],
  ['a gateway', (): Promise<Running> => startWs(Gateway)],
] as const)('a stream of %s', (_name, start) => {
  it('is refused, as nobody would read it, unless it is an Observable', async () => {
    log.length = 0;
    const { call, locks, close } = await start();
    for (const name of ['generator', 'web']) {
      expect(await call(name, '1')).toMatchObject({ error: { message: 'Internal server error' } });
      await until(async () => (await locks.inspect('k:1')) === null);
    }
    expect(log).toEqual(['cancelled']);
    expect(await call('observable', '1')).toEqual({ value: '1' });
    await close();
  });
});
