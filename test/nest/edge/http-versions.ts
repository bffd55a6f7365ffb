import { once } from 'node:events';
import { createServer, type Http2Server } from 'node:http2';
import * as http from 'node:http';
import * as http2 from 'node:http2';
import * as https from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import type { Readable } from 'node:stream';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { makeCertificates } from '#certificates';
import { until } from '#until';
import { Stage } from '../integration/stage.js';

const { ca, server: identity } = makeCertificates();

interface ExpressApp {
  request: object;
  response: object;
}

/** Express itself is for HTTP/1: its requests and responses inherit from those of `node:http`. */
class Http2ExpressAdapter extends ExpressAdapter {
  constructor() {
    super();
    const app = this.getInstance<ExpressApp>();
    app.request = over(http2.Http2ServerRequest.prototype, app.request);
    app.response = over(http2.Http2ServerResponse.prototype, app.response);
  }

  override initHttpServer(): void {
    const server: Http2Server = createServer(this.getInstance());
    this.httpServer = server as unknown as typeof this.httpServer;
  }
}

/** The members of Express on top of another prototype. */
function over(prototype: object, ofApp: object): object {
  const shared = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(ofApp) as object);
  return Object.create(prototype, { ...shared, ...Object.getOwnPropertyDescriptors(ofApp) }) as object;
}

const tls = { http2: true, https: { ...identity, allowHTTP1: true } } as object;

interface HttpServer {
  readonly adapter: () => AbstractHttpAdapter;
  readonly version: 1 | 2;
  readonly isSecure?: true;
}

/** Both adapters with each version of HTTP that they can speak. */
export const HTTP_SERVERS: Readonly<Record<string, HttpServer>> = {
  'Express over HTTP/1': { adapter: () => new ExpressAdapter(), version: 1 },
  'Fastify over HTTP/1': { adapter: () => new FastifyAdapter(), version: 1 },
  'Express over HTTP/2': { adapter: () => new Http2ExpressAdapter(), version: 2 },
  'Fastify over HTTP/2': { adapter: () => new FastifyAdapter({ http2: true } as object), version: 2 },
  'Fastify over HTTP/2 with TLS': { adapter: () => new FastifyAdapter(tls), version: 2, isSecure: true },
  'Fastify over HTTP/1 of a server of HTTP/2': {
    adapter: () => new FastifyAdapter(tls),
    version: 1,
    isSecure: true,
  },
};

/** One request and its answer, as the client sees them. */
export class Exchange {
  received = '';
  status = 0;
  /** `complete`, or `broken` for an answer that the server has broken off. */
  end: 'open' | 'complete' | 'broken' = 'open';

  constructor(
    answer: Promise<readonly [status: number, body: Readable]>,
    /** The client goes. */
    readonly leave: () => void,
  ) {
    answer.then(
      ([status, body]) => {
        this.status = status;
        body.on('data', (chunk: Buffer) => (this.received += chunk.toString()));
        body.on('end', () => (this.end = this.end === 'open' ? 'complete' : this.end));
        for (const event of ['error', 'aborted']) body.on(event, () => (this.end = 'broken'));
      },
      () => (this.end = 'broken'),
    );
  }

  /** Waits for the end of the answer. */
  async ended(): Promise<this> {
    await until(() => this.end !== 'open');
    return this;
  }
}

export interface HttpApp {
  readonly app: INestApplication;
  readonly locks: LockService;
  readonly stage: Stage;
  readonly isFree: (key: string) => Promise<boolean>;
  readonly ask: (path: string, method?: string) => Exchange;
  readonly close: () => Promise<void>;
}

export async function startHttp(
  name: string,
  metadata: ModuleMetadata,
  prepare: (app: INestApplication) => void = () => undefined,
): Promise<HttpApp> {
  const { adapter, version, isSecure } = HTTP_SERVERS[name] as HttpServer;
  const module = await Test.createTestingModule({
    ...metadata,
    imports: [DistributedLockModule.forRoot({ shutdownGraceMs: 2_000 }), ...(metadata.imports ?? [])],
    providers: [Stage, ...(metadata.providers ?? [])],
  }).compile();
  const app = module.createNestApplication<INestApplication>(adapter(), { logger: ['fatal'] });
  prepare(app);
  await app.listen(0, '127.0.0.1');
  const { port } = (app.getHttpServer() as Server).address() as AddressInfo;
  const url = `http${isSecure ? 's' : ''}://127.0.0.1:${port}`;
  const locks = app.get(LockService);
  const clients: { destroy(): void }[] = [];
  const ask = version === 2 ? askOver2(url, clients) : askOver1(url, clients);
  return {
    app,
    locks,
    stage: app.get(Stage),
    isFree: async (key) => (await locks.inspect(key)) === null,
    ask,
    close: async () => {
      for (const client of clients) client.destroy();
      await app.close();
    },
  };
}

function askOver1(url: string, clients: { destroy(): void }[]): HttpApp['ask'] {
  const { Agent, request } = url.startsWith('https') ? https : http;
  const agent = new Agent({ keepAlive: true, maxSockets: 20 });
  clients.push(agent);
  return (path, method = 'GET') => {
    const asked = request(`${url}${path}`, { method, agent, ca } as https.RequestOptions);
    asked.on('error', () => undefined);
    const answer = once(asked, 'response').then(([it]) => {
      const response = it as http.IncomingMessage;
      return [response.statusCode ?? 0, response] as const;
    });
    asked.end();
    return new Exchange(answer, () => asked.destroy());
  };
}

function askOver2(url: string, clients: { destroy(): void }[]): HttpApp['ask'] {
  const session = http2.connect(url, { ca });
  session.on('error', () => undefined);
  clients.push(session);
  return (path, method = 'GET') => {
    const asked = session.request({ ':path': path, ':method': method });
    asked.on('error', () => undefined);
    const answer = new Promise<readonly [number, Readable]>((resolve, reject) => {
      asked.once('response', (headers) => resolve([Number(headers[':status']), asked]));
      asked.once('close', () => reject(new Error('closed without an answer')));
    });
    asked.end();
    return new Exchange(answer, () => asked.close(http2.constants.NGHTTP2_CANCEL));
  };
}
