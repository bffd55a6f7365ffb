import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterEach, describe, expect, it } from '@jest/globals';
import { makeCertificates } from '#certificates';
import { closeServices, failureOf, openService } from '../../support/lock-services.js';

const GREETING = Buffer.from('\x4a\0\0\0\x0a8.0.36\0rest', 'latin1');
const quiet = (server: Server): Server => server.on('connection', (it) => it.on('error', () => undefined));

describe('a URL of Redis where another server answers', () => {
  let server: Server | undefined;

  afterEach(async () => {
    await closeServices();
    server?.close();
    server = undefined;
  });

  const failureAt = async (other: Server, scheme = 'redis'): Promise<unknown> => {
    server = quiet(other).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const service = openService(`${scheme}://127.0.0.1:${port}`, { commandTimeoutMs: 300 });
    return failureOf(service.acquire('goods:1', { waitMs: 1500 }));
  };

  it.each<[string, () => Server, string]>([
    [
      'MySQL',
      () => createServer((socket) => socket.resume().write(GREETING)),
      'no Redis answers there, but MySQL or MariaDB (8.0.36)',
    ],
    ['HTTP', () => createHttpServer(), 'no Redis answers there, but an HTTP server'],
    [
      'TLS',
      () => createServer((it) => it.once('data', () => it.end(Buffer.from([21, 3, 3, 0, 2, 2, 70])))),
      'no Redis answers there, but a server that speaks TLS',
    ],
    [
      'TLS that closes',
      () => createTlsServer(makeCertificates().server),
      'closed it without an answer; is it Redis? With TLS: the URL of a Redis with TLS starts with rediss:',
    ],
    [
      'PostgreSQL, which does not understand what it is sent, and closes',
      () => createServer((socket) => socket.once('data', () => socket.end())),
      'the server took the connection and closed it without an answer',
    ],
    [
      'a server that waits for more',
      () => createServer((socket) => socket.resume()),
      'the server took the connection and sent nothing for 300 ms',
    ],
  ])('says so: %s', async (_, create, said) => {
    expect(((await failureAt(create())) as Error).message).toContain(said);
  });

  it('says so: one without TLS, by the URL of a Redis with TLS', async () => {
    const failure = await failureAt(createHttpServer(), 'rediss');
    expect((failure as Error).message).toContain('what answers there speaks no TLS');
  });
});
