import { once as next } from 'node:events';
import type { INestApplication, Type } from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { io, type Socket } from 'socket.io-client';
import { WebSocket } from 'ws';
import { startApp } from '../../integration/stage.js';
import {
  HttpOnlyFilter,
  Witness,
  registration,
  type Answer,
  type Running,
  type Transport,
} from './transport.js';

type Adapter = new (app: INestApplication) => WsAdapter | IoAdapter;
type Call = (url: string, event: string, id?: string) => Promise<Answer>;

export async function connect(url: string): Promise<WebSocket> {
  const socket = new WebSocket(url.replace('http', 'ws'));
  await next(socket, 'open');
  return socket;
}

export async function connectIo(url: string): Promise<Socket> {
  const socket = io(url, { transports: ['websocket'], reconnection: false });
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  return socket;
}

const callWs: Call = async (url, event, id) => {
  const socket = await connect(url);
  socket.send(JSON.stringify({ event, data: { id } }));
  const [data] = (await next(socket, 'message')) as [Buffer];
  socket.close();
  const message = JSON.parse(data.toString()) as { event?: string; data: Answer['error'] };
  return message.event === 'exception' ? { error: message.data } : { value: message };
};

const callIo: Call = async (url, event, id) => {
  const socket = await connectIo(url);
  const answer = await new Promise<Answer>((resolve) => {
    socket.once('exception', (error: NonNullable<Answer['error']>) => resolve({ error }));
    socket.emit(event, { id }, (value: unknown) => resolve({ value }));
  });
  socket.close();
  return answer;
};

async function startSockets(handlers: Type<unknown>, Adapter: Adapter, call: Call) {
  const { app, stage, locks } = await startApp(
    'express',
    { imports: [registration()], providers: [handlers] },
    (it) => {
      it.useWebSocketAdapter(new Adapter(it));
      it.useGlobalFilters(new HttpOnlyFilter());
      it.useGlobalInterceptors(new Witness());
    },
  );
  const url = await app.getUrl();
  const running: Running = {
    stage,
    locks,
    call: (event, id) => call(url, event, id),
    close: () => app.close(),
  };
  return { ...running, url };
}

export const startWs = (handlers: Type<unknown>) => startSockets(handlers, WsAdapter, callWs);
export const startIo = (handlers: Type<unknown>) => startSockets(handlers, IoAdapter, callIo);

const sockets = (start: Transport['start']): Transport => ({
  exception: WsException,
  forClass: WebSocketGateway(),
  on: SubscribeMessage,
  id: (...pipes) => MessageBody('id', ...(pipes as Type[])),
  start,
});

export const overWs = sockets(startWs);
export const overIo = sockets(startIo);
