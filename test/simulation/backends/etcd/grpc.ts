import { EventEmitter } from 'node:events';
import type { EtcdGrpc } from '../../../../libs/distributed-lock/src/etcd/grpc.js';
import type { SimProcess } from '../../kernel/process.js';
import type { SimServer } from '../../kernel/server.js';
import type { ClientEnd } from '../../network/connection.js';
import type { Network } from '../../network/network.js';
import { kindOf } from './kinds.js';
import type { WireError, WireReply, WireRequest } from './wire.js';

/** A call under way. */
interface Exchange {
  onReply(reply: object): void;
  onError(error: Error & WireError): void;
}

const UNAVAILABLE = 14;
const CANCELLED: WireError = { code: 1, details: 'Cancelled on client' };

/** What the client of etcd uses of gRPC, over the simulated network: one connection for each member, opened when it is needed. */
export function simulatedGrpc(network: Network, process: SimProcess, server: SimServer): EtcdGrpc {
  class Client extends Channel {
    constructor() {
      super(network, process, server);
    }
  }
  const grpc = {
    Client,
    Metadata: class extends Map {},
    credentials: { createInsecure: () => ({ _createSecureConnector: () => undefined }) },
  };
  const names = ['Txn', 'LeaseGrant', 'LeaseRevoke', 'LeaseKeepAlive', 'Authenticate', 'Status', 'Watch'];
  const methodOf = (name: string): Pick<EtcdGrpc['methods']['Txn'], 'path' | 'requestStream'> => ({
    path: name,
    requestStream: name === 'LeaseKeepAlive' || name === 'Watch',
  });
  const methods = Object.fromEntries(names.map((name) => [name, methodOf(name)]));
  return { grpc, methods } as unknown as EtcdGrpc;
}

class Channel {
  private end: ClientEnd | undefined;
  private isOpen = false;
  private unsent: WireRequest[] = [];
  private readonly exchanges = new Map<number, Exchange>();
  private calls = 0;

  constructor(
    private readonly network: Network,
    private readonly process: SimProcess,
    private readonly server: SimServer,
  ) {}

  makeUnaryRequest(
    path: string,
    _serialize: unknown,
    _deserialize: unknown,
    request: object,
    _metadata: unknown,
    callback: (error: Error | null, reply?: object) => void,
  ): { cancel(): void } {
    const id = ++this.calls;
    this.exchanges.set(id, {
      onReply: (reply) => callback(null, reply),
      onError: (error) => callback(error),
    });
    this.send({ id, name: path, request } as WireRequest);
    return { cancel: () => this.cancel(id) };
  }

  makeBidiStreamRequest(path: string): EventEmitter {
    const id = ++this.calls;
    const stream = new EventEmitter();
    this.exchanges.set(id, {
      onReply: (reply) => stream.emit('data', reply),
      onError: (error) => {
        stream.emit('error', error);
        stream.emit('close');
      },
    });
    const write = (request: object): void => this.send({ id, name: path, request } as WireRequest);
    return Object.assign(stream, { write, end: () => undefined, cancel: () => this.cancel(id) });
  }

  close(): void {
    this.end?.destroy();
    this.end = undefined;
  }

  private cancel(id: number): void {
    const exchange = this.exchanges.get(id);
    if (!exchange) return;
    this.exchanges.delete(id);
    this.unsent = this.unsent.filter((request) => request.id !== id);
    if (this.isOpen) this.end?.send({ id, name: 'cancel' } satisfies WireRequest, 'cancel');
    queueMicrotask(() => exchange.onError(errorOf(CANCELLED)));
  }

  private send(request: WireRequest): void {
    if (!this.end) this.connect();
    if (this.isOpen) this.end?.send(request, kindOf(request));
    else this.unsent.push(request);
  }

  private connect(): void {
    this.end = this.network.connect(this.process, this.server, {
      onOpen: () => {
        this.isOpen = true;
        for (const request of this.unsent.splice(0)) this.end?.send(request, kindOf(request));
      },
      onMessage: (payload) => this.onMessage(payload as WireReply),
      onClose: () => this.onClose(),
    });
  }

  private onMessage(reply: WireReply): void {
    const exchange = this.exchanges.get(reply.id);
    if (!exchange) return;
    if ('watched' in reply) return exchange.onReply(reply.watched);
    this.exchanges.delete(reply.id);
    if ('error' in reply) exchange.onError(errorOf(reply.error));
    else exchange.onReply(reply.reply);
  }

  private onClose(): void {
    const details = this.isOpen
      ? 'Connection dropped'
      : 'No connection established. Last error: Error: connect ECONNREFUSED. Resolution note: none';
    this.end = undefined;
    this.isOpen = false;
    this.unsent = [];
    const failed = [...this.exchanges.values()];
    this.exchanges.clear();
    for (const exchange of failed) exchange.onError(errorOf({ code: UNAVAILABLE, details }));
  }
}

function errorOf({ code, details }: WireError): Error & WireError {
  return Object.assign(new Error(`${code}: ${details}`), { code, details });
}
