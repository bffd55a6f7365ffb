import type { AddressInfo, Server } from 'node:net';
import { Controller, type Type } from '@nestjs/common';
import {
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  RpcException,
  Transport as Wire,
  type ClientOptions,
  type ClientProxy,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { LockService } from 'nestjs-distributed-lock';
import { firstValueFrom } from 'rxjs';
import { Stage } from '../../integration/stage.js';
import { HttpOnlyFilter, Witness, registration, type Running, type Transport } from './transport.js';

/** Its own type wants the data first. */
export const onEvent = EventPattern as (topic: string) => MethodDecorator;

type WireName = 'TCP' | 'Redis';

const redis = new URL(String(process.env['REDIS_URL']));

function optionsOf(wire: WireName, port: number): MicroserviceOptions {
  return wire === 'TCP'
    ? { transport: Wire.TCP, options: { host: '127.0.0.1', port } }
    : { transport: Wire.REDIS, options: { host: redis.hostname, port: Number(redis.port) } };
}

export async function startRpc(handlers: Type<unknown>, wire: WireName = 'TCP'): Promise<Running> {
  const module = await Test.createTestingModule({
    imports: [registration()],
    controllers: [handlers],
    providers: [Stage],
  }).compile();
  const app = module.createNestMicroservice({ ...optionsOf(wire, 0), logger: false });
  app.useGlobalFilters(new HttpOnlyFilter());
  app.useGlobalInterceptors(new Witness());
  await app.listen();
  const port = wire === 'TCP' ? (app.unwrap<Server>().address() as AddressInfo).port : 0;
  const client: ClientProxy = ClientProxyFactory.create(optionsOf(wire, port) as ClientOptions);
  return {
    stage: app.get(Stage),
    locks: app.get(LockService),
    call: async (name, id) => {
      if (name.startsWith('event')) return { value: await firstValueFrom(client.emit(name, { id })) };
      return firstValueFrom(client.send<unknown>(name, { id })).then(
        (value) => ({ value }),
        (error: { message: string }) => ({ error }),
      );
    },
    close: async () => {
      await client.close();
      await app.close();
    },
  };
}

const messages = (wire: WireName): Transport => ({
  exception: RpcException,
  forClass: Controller(),
  on: (name) => (name.startsWith('event') ? onEvent(name) : MessagePattern(name)),
  id: (...pipes) => Payload('id', ...(pipes as Type[])),
  start: (handlers) => startRpc(handlers, wire),
});

export const overTcp = messages('TCP');
export const overRedis = messages('Redis');
