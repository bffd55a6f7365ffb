import { until } from '#until';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { systemChance, systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import {
  ConnectionLostError,
  JuteWriter,
  Request,
} from '../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import { ZookeeperSession } from '../../../libs/distributed-lock/src/zookeeper/client/session.js';
import { elapsed, failureOf } from '../../support/lock-services.js';
import { type FakeRequest, FakeZookeeper } from './support/fake-zookeeper.js';

const COMMAND_MS = 200;
const SLACK_MS = 900;

describe('a session of ZooKeeper with a server that does not do what it should', () => {
  let server: FakeZookeeper;
  let session: ZookeeperSession;
  let ends: Error[];
  let losses: Error[];
  const open = (
    options: {
      readonly ports?: readonly number[];
      readonly timeoutMs?: number;
      readonly host?: string;
      readonly resolve?: (host: string) => Promise<readonly string[]>;
    } = {},
  ) => {
    const { ports = [server.port], timeoutMs = 10_000, host = '127.0.0.1', resolve } = options;
    ends = [];
    losses = [];
    session = new ZookeeperSession(
      {
        clock: systemClock,
        chance: systemChance,
        servers: ports.map((port) => ({ host, port })),
        ...(resolve && { resolve }),
        tls: undefined,
        auth: undefined,
        timeoutMs,
        commandTimeoutMs: COMMAND_MS,
        lastZxid: 0,
        keepAlive: () => session.send(Request.sync('/')),
      },
      {
        onConnected: () => undefined,
        onDisconnected: (error) => losses.push(error),
        onWatch: () => undefined,
        onEnd: (error) => ends.push(error),
      },
    );
    return session;
  };
  /** Once there is a connection. */
  const send = async <Content>(request: Request<Content>) => {
    await until(() => session.isConnected || ends.length > 0);
    return session.send(request);
  };
  /** Not like what the session sends on its own, so a server can refuse this request alone. */
  const reading = Request.exists('/');
  const refuseReading = (code: number) => {
    server.onRequest = (request) => server.answer(request, request.op === reading.op ? code : 0);
  };
  beforeEach(async () => {
    server = await FakeZookeeper.start();
  });
  afterEach(async () => {
    await session.close(true);
    await server.stop();
  });

  it('rejects a request that is never answered, and connects again with the same session', async () => {
    open();
    await send(Request.sync('/'));
    server.onRequest = () => undefined;
    const sent = session.send(Request.sync('/'));
    expect(await elapsed(failureOf(sent))).toBeLessThan(COMMAND_MS + SLACK_MS);
    expect(await failureOf(sent)).toBeInstanceOf(ConnectionLostError);
    expect(await failureOf(sent)).toMatchObject({
      message: expect.stringContaining(`nothing for ${COMMAND_MS} ms`),
    });
    server.onRequest = (request) => server.answer(request);
    await send(Request.sync('/'));
    expect(server.handshakes).toEqual([0n, 77n]);
    expect(ends).toEqual([]);
  });

  it('waits on for requests while others are answered', async () => {
    open();
    const waiting: FakeRequest[] = [];
    server.onRequest = (request) => {
      waiting.push(request);
      if (waiting.length === 1) setTimeout(answerNext, COMMAND_MS * 0.7);
    };
    const answerNext = () => {
      const next = waiting.shift();
      if (!next) return;
      server.answer(next);
      setTimeout(answerNext, COMMAND_MS * 0.7);
    };
    await Promise.all(Array.from({ length: 4 }, () => send(Request.sync('/'))));
    expect(losses).toEqual([]);
  });

  it.each([
    ['to no request', (request: FakeRequest) => server.answer({ ...request, xid: 4711 })],
    [
      'twice',
      (request: FakeRequest) => {
        server.answer(request);
        server.answer(request);
      },
    ],
    [
      'in the wrong order',
      (request: FakeRequest) => {
        if (request.xid % 2 === 1) return;
        server.answer(request);
        server.answer({ ...request, xid: request.xid - 1 });
      },
    ],
    ['with garbage', ({ socket }: FakeRequest) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')],
    [
      'with a message that is too short',
      ({ socket, xid }: FakeRequest) => void socket.write(new JuteWriter().int(xid).int(0).frame()),
    ],
    [
      'with a content that is torn',
      ({ socket, xid }: FakeRequest) =>
        void socket.write(new JuteWriter().int(xid).long(1n).int(0).int(500).frame()),
    ],
  ])('drops the connection that is answered %s, and rejects what has no reply', async (_, answer) => {
    open();
    await send(Request.sync('/'));
    server.onRequest = answer;
    const sent = await Promise.allSettled([1, 2, 3].map(() => session.send(Request.sync('/'))));
    const errors: unknown[] = sent.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    expect(errors).not.toEqual([]);
    expect(errors.every((error) => error instanceof ConnectionLostError)).toBe(true);
    expect(losses[0]?.message).toMatch(/127\.0\.0\.1:\d+ sent what is not ZooKeeper's protocol: /);
    server.onRequest = (request) => server.answer(request);
    await send(Request.sync('/'));
    expect(ends).toEqual([]);
  });

  it('rejects a request whose connection breaks before the reply, wherever the reply is torn', async () => {
    open();
    for (const length of [1, 5, 20]) {
      await send(Request.sync('/'));
      server.onRequest = ({ socket, xid }) => {
        const reply = new JuteWriter().int(xid).long(1n).int(0).text('/').frame();
        socket.end(reply.subarray(0, length));
      };
      expect(await failureOf(session.send(Request.sync('/')))).toBeInstanceOf(ConnectionLostError);
      server.onRequest = (request) => server.answer(request);
    }
  });

  it('does not wait for ever for a handshake, and tries the next server', async () => {
    const other = await FakeZookeeper.start();
    try {
      server.onHandshake = () => undefined;
      open({ ports: [server.port, other.port] });
      await until(() => session.isConnected);
      expect(other.handshakes).toEqual([0n]);
    } finally {
      await session.close(true);
      await other.stop();
    }
  });

  it('tries each address of a name', async () => {
    open({ host: 'ensemble.test', resolve: () => Promise.resolve(['127.0.0.2', '127.0.0.1', '127.0.0.3']) });
    await send(Request.sync('/'));
    expect(server.handshakes).toEqual([0n]);
  });

  it('moves on when the server says that the session has moved', async () => {
    open();
    await send(Request.sync('/'));
    refuseReading(-118);
    expect(await failureOf(session.send(reading))).toMatchObject({ code: -118 });
    server.onRequest = (request) => server.answer(request);
    await send(Request.sync('/'));
    expect(server.handshakes).toEqual([0n, 77n]);
  });

  it('is over when the server says so in a reply, and executes nothing more', async () => {
    open();
    await send(Request.sync('/'));
    refuseReading(-112);
    expect(await failureOf(session.send(reading))).toMatchObject({ reason: 'unready' });
    const { length } = server.requests;
    expect(ends).toHaveLength(1);
    expect(session.validUntil).toBe(-Infinity);
    expect(await failureOf(session.send(Request.sync('/')))).toMatchObject({ reason: 'unready' });
    expect(server.requests).toHaveLength(length);
  });

  it('is over when the server does not resume it', async () => {
    open();
    await send(Request.sync('/'));
    server.sessionMs = 0;
    for (const socket of server.sockets) socket.destroy();
    await until(() => ends.length === 1);
    expect(server.handshakes).toEqual([0n, 77n]);
  });

  it('is over when no server has resumed it for twice its length', async () => {
    server.sessionMs = 500;
    open({ timeoutMs: 500 });
    await send(Request.sync('/'));
    server.onHandshake = (socket) => void socket.destroy();
    for (const socket of server.sockets) socket.destroy();
    await until(() => ends.length === 1, 5000);
    expect(session.lastZxid).toBe(0);
  });

  it('says that a request was not sent while there is no connection', async () => {
    server.onHandshake = () => undefined;
    open();
    expect(await failureOf(session.send(Request.sync('/')))).toMatchObject({ reason: 'unreachable' });
    expect(server.requests).toEqual([]);
  });

  it('refuses a request that a server would not take, and sends the others', async () => {
    open();
    expect(await failureOf(send(Request.sync(`/${'x'.repeat(1_100_000)}`)))).toMatchObject({
      reason: 'refused',
      message: expect.stringMatching(/1100\d+ bytes; a server takes 1048575 \(its jute.maxbuffer\)/),
    });
    await send(Request.sync('/'));
    expect(losses).toEqual([]);
  });

  it('closes at once while nothing is answered, and leaves no socket', async () => {
    open();
    await send(Request.sync('/'));
    server.onRequest = () => undefined;
    const sent = failureOf(session.send(Request.sync('/')));
    expect(await elapsed(session.close(false))).toBeLessThan(COMMAND_MS + SLACK_MS);
    expect(await sent).toBeInstanceOf(Error);
    await until(() => server.sockets.size === 0);
  });

  it('counts its time from a request that the leader was told of', async () => {
    server.sessionMs = 1200;
    const openedAt = performance.now();
    open({ timeoutMs: 1200 });
    await send(Request.sync('/'));
    const first = session.validUntil;
    expect(first).toBeGreaterThan(openedAt + 1000);
    await until(() => session.validUntil > first);
    const waitedMs = performance.now() - openedAt;
    expect(waitedMs).toBeGreaterThanOrEqual(300);
    // Behind by a quarter of the session, and by two keep-alives at most.
    await until(() => performance.now() - openedAt > 1500);
    const behindMs = performance.now() + 1200 - session.validUntil;
    expect(behindMs).toBeGreaterThan(300);
    expect(behindMs).toBeLessThan(300 + 2 * 100 + 40 + SLACK_MS / 2);
  });
});
