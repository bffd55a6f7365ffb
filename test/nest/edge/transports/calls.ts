import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { credentials, loadPackageDefinition, type Client } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { Type } from '@nestjs/common';
import { Transport as Wire } from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { LockService } from 'nestjs-distributed-lock';
import { Stage } from '../../integration/stage.js';
import { registration } from './transport.js';

const protoPath = fileURLToPath(new URL('calls.proto', import.meta.url));

export interface RunningCalls {
  readonly stage: Stage;
  readonly locks: LockService;
  readonly isFree: (key: string) => Promise<boolean>;
  /** A client of `calls.proto`, whose methods are those of its service. */
  readonly client: Client & Record<string, (...args: unknown[]) => never>;
  readonly close: () => Promise<void>;
}

export async function startCalls(handlers: Type<unknown>): Promise<RunningCalls> {
  const url = `127.0.0.1:${await freePort()}`;
  const module = await Test.createTestingModule({
    imports: [registration()],
    controllers: [handlers],
    providers: [Stage],
  }).compile();
  const options = { url, package: 'calls', protoPath };
  const app = module.createNestMicroservice({ transport: Wire.GRPC, options, logger: false });
  await app.listen();
  const { calls } = loadPackageDefinition(loadSync(protoPath)) as unknown as {
    calls: { Calls: new (url: string, secrets: unknown) => RunningCalls['client'] };
  };
  const client = new calls.Calls(url, credentials.createInsecure());
  const locks = app.get(LockService);
  return {
    stage: app.get(Stage),
    locks,
    client,
    isFree: async (key) => (await locks.inspect(key)) === null,
    close: async () => {
      client.close();
      await app.close();
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
