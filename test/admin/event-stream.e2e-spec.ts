import { createServer, request, type ServerResponse } from 'node:http';
import * as http2 from 'node:http2';
import type { AddressInfo, Server } from 'node:net';
import type { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { world } from '../support/world-per-test.js';
import { ServiceInternals } from '../../libs/distributed-lock/src/lock/events/service-internals.js';
import type { LockService } from '../../libs/distributed-lock/src/lock/lock.service.js';
import { EventStream } from '../../libs/distributed-lock/src/admin/event-stream.js';

/** More than a client, a kernel and Node take of what nobody reads. */
const MAX_BYTES = 20_000_000;
const MESSAGE = 'x'.repeat(1000);

interface Client {
  /** Reads what has come, until it is left alone again. */
  readonly body: Readable;
  leave(): void;
}

interface Protocol {
  open(onRequest: (response: ServerResponse) => void): Promise<{ port: number; close(): void }>;
  ask(port: number): Promise<Client>;
}

const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  'HTTP/1.1': {
    open: (onRequest) => listening(createServer((_, response) => onRequest(response))),
    ask: (port) =>
      new Promise((resolve, reject) => {
        const sent = request({ port, agent: false }, (body) =>
          resolve({ body: body.on('error', () => undefined), leave: () => void sent.destroy() }),
        );
        sent.on('error', reject).end();
      }),
  },
  'HTTP/2': {
    open: (onRequest) =>
      listening(http2.createServer((_, response) => onRequest(response as unknown as ServerResponse))),
    ask: (port) =>
      new Promise((resolve, reject) => {
        const session = http2.connect(`http://localhost:${port}`).on('error', reject);
        const body = session.request({ ':path': '/' }).on('error', () => undefined);
        const leave = () => session.destroy();
        body.on('response', () => resolve({ body, leave }));
        body.on('close', leave);
      }),
  },
};

function listening(server: Server): Promise<{ port: number; close(): void }> {
  return new Promise((resolve) => {
    server.listen(0, () => {
      resolve({ port: (server.address() as AddressInfo).port, close: () => void server.close() });
    });
  });
}

describe.each(Object.keys(PROTOCOLS))('a stream of events over %s', (name) => {
  const protocol = PROTOCOLS[name] as Protocol;
  let service: LockService;
  let server: { port: number; close(): void };
  let stream: EventStream | undefined;
  let response: ServerResponse;
  let written: number;
  let ended: number;
  const clients: Client[] = [];

  beforeEach(async () => {
    service = world.service();
    [written, ended] = [0, 0];
    server = await protocol.open((it) => {
      response = it;
      const write = it.write.bind(it) as (text: string) => boolean;
      it.write = (text: string) => {
        written += text.length;
        return write(text);
      };
      stream = new EventStream(it, service, () => (ended += 1));
      stream.start();
    });
  });
  afterEach(() => {
    for (const client of clients.splice(0)) client.leave();
    server.close();
  });

  const ask = async (): Promise<Client> => {
    const client = await protocol.ask(server.port);
    clients.push(client);
    return client;
  };
  /** A hundred events, and the time in which they are sent together. */
  const tell = async (): Promise<void> => {
    for (let i = 0; i < 100; i++)
      ServiceInternals.of(service).events.emit({ type: 'warning', key: undefined, message: MESSAGE });
    await world.clock.advance(100);
    await new Promise(setImmediate);
  };
  /** Until nothing more is written: the client does not keep up. */
  const untilFull = async (): Promise<void> => {
    for (let before = -1; before !== written;) {
      before = written;
      await tell();
      expect(written).toBeLessThan(MAX_BYTES);
    }
  };

  it('stops to write for a client that does not read, and goes on when it reads', async () => {
    const { body } = await ask();
    await untilFull();
    const full = written;
    for (let i = 0; i < 20; i++) await tell();
    expect([written, ended]).toEqual([full, 0]);
    let text = '';
    body.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await until(() => text.includes('"missed"'));
    // A client that keeps up is left alone, however long it takes.
    await world.clock.advance(31_000);
    await tell();
    expect([ended, written > full]).toEqual([0, true]);
  });

  it('ends for a client that has read nothing for 30 s, with its connection or its part of it', async () => {
    const { body } = await ask();
    await untilFull();
    let isClosed = false;
    response.on('close', () => (isClosed = true));
    await world.clock.advance(29_000);
    expect([ended, isClosed]).toEqual([0, false]);
    await world.clock.advance(1500);
    expect(ended).toBe(1);
    await until(() => isClosed);
    body.resume();
  });

  it('ends when the service is closed, which does not wait for a client that does not read', async () => {
    const { body } = await ask();
    await untilFull();
    let isClosed = false;
    response.on('close', () => (isClosed = true));
    await service.close();
    expect(ended).toBe(1);
    await until(() => isClosed);
    body.resume();
  });

  it('ends when the service is closed by hand', async () => {
    const { body } = await ask();
    let isOver = false;
    body.on('end', () => (isOver = true)).resume();
    await service.close();
    await until(() => isOver);
    expect(ended).toBe(1);
  });

  it('ends at once on a service that is closed already', async () => {
    await service.close();
    const { body } = await ask();
    let isOver = false;
    body.on('end', () => (isOver = true)).resume();
    await until(() => isOver);
    expect(ended).toBe(1);
  });
});
