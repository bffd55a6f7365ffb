import type { Socket } from 'node:net';
import type { ClientDuplexStream, Client, Metadata } from '@grpc/grpc-js';
import { conceal } from '../../redaction/conceal.js';
import type { EtcdGrpc, Method } from './etcd.grpc.js';
import { socketsOf } from './etcd.sockets.js';
import type { CallName, Calls, WatchReply, WatchRequest } from './etcd.messages.js';
import { credentialsOf, type EtcdTls } from './etcd.target.js';

const OPTIONS = {
  // A connection of this store's own, which ends with it.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 500,
  // etcd refuses clients that ping more often than every 5 s.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5000,
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_channelz': 0,
};

/** A connection to one member of the cluster. */
export class EtcdMember {
  private readonly client: Client;
  private readonly sockets: ReadonlySet<Socket>;
  private readonly exchanges = new Set<() => void>();
  private token: string | undefined;

  constructor(
    readonly address: string,
    private readonly etcd: EtcdGrpc,
    tls: EtcdTls | undefined,
  ) {
    conceal(this, 'client', 'token');
    const credentials = credentialsOf(etcd.grpc, tls);
    this.sockets = socketsOf(credentials);
    const name = tls?.servername;
    const options = { ...OPTIONS, ...(name !== undefined && { 'grpc.ssl_target_name_override': name }) };
    this.client = new etcd.grpc.Client(address, credentials, options);
  }

  setToken(token: string | undefined): void {
    this.token = token;
  }

  /** Sends one request. Rejects with the error of gRPC. */
  call<Name extends CallName>(name: Name, request: Calls[Name]['request']): Exchange<Calls[Name]['reply']> {
    const method = this.etcd.methods[name];
    let cancel = (): void => undefined;
    const reply = new Promise<Calls[Name]['reply']>((resolve, reject) => {
      if (method.requestStream) {
        const stream = this.stream(method);
        stream
          .on('data', resolve)
          .on('error', reject)
          .on('end', () => reject(new Error('etcd sent no reply')));
        stream.write(request);
        stream.end();
        cancel = () => stream.cancel();
        return;
      }
      const call = this.client.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        this.metadata(),
        (error, value) => (error ? reject(error) : resolve(value as Calls[Name]['reply'])),
      );
      cancel = () => call.cancel();
    });
    this.exchanges.add(cancel);
    const forget = (): void => {
      this.exchanges.delete(cancel);
    };
    reply.then(forget, forget);
    return { reply, cancel };
  }

  /** A stream of watches. It fails with errors of gRPC. */
  watch(): WatchStream {
    const stream = this.stream(this.etcd.methods.Watch) as WatchStream;
    const cancel = (): void => stream.cancel();
    this.exchanges.add(cancel);
    stream.on('close', () => this.exchanges.delete(cancel));
    return stream;
  }

  /** Ends at once, whatever the member does. */
  destroy(): void {
    for (const cancel of this.exchanges) cancel();
    this.client.close();
    for (const socket of this.sockets) socket.destroy();
  }

  private stream(method: Method): ClientDuplexStream<object, object> {
    const { path, requestSerialize, responseDeserialize } = method;
    return this.client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, this.metadata());
  }

  /** A member that has lost its leader says so at once, instead of keeping silent. */
  private metadata(): Metadata {
    const metadata = new this.etcd.grpc.Metadata();
    metadata.set('hasleader', 'true');
    if (this.token !== undefined) metadata.set('token', this.token);
    return metadata;
  }
}

/** A request under way. `cancel` rejects its reply. */
interface Exchange<Reply> {
  readonly reply: Promise<Reply>;
  readonly cancel: () => void;
}

export type WatchStream = ClientDuplexStream<WatchRequest, WatchReply>;
