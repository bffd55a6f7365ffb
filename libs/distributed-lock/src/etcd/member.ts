import type { Socket } from 'node:net';
import type { ChannelCredentials, Client, ClientDuplexStream, Metadata } from '@grpc/grpc-js';
import { conceal } from '../common/redaction.js';
import { type StoreFailure, textOf } from '../connection/connection-errors.js';
import { ServerProtocol } from '../connection/kept-connection.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { Calls, EtcdGrpc, WatchReply, WatchRequest } from './grpc.js';
import type { EtcdTls } from './store.js';

const OPTIONS = {
  // gRPC shares the connections of a process. This store has its own, so that `destroy` really closes them.
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

  /** Sends one request. The reply rejects with the error of gRPC. */
  call<Name extends keyof Calls>(
    name: Name,
    request: Calls[Name]['request'],
  ): Exchange<Calls[Name]['reply']> {
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

  /** Opens a watch stream. It emits `error` with errors of gRPC. */
  watch(): WatchStream {
    const stream = this.stream(this.etcd.methods.Watch) as WatchStream;
    const cancel = (): void => stream.cancel();
    this.exchanges.add(cancel);
    stream.on('close', () => this.exchanges.delete(cancel));
    return stream;
  }

  /** Closes the connection and cancels its requests at once, without waiting for the member. */
  destroy(): void {
    for (const cancel of this.exchanges) cancel();
    this.client.close();
    for (const socket of this.sockets) socket.destroy();
  }

  private stream(method: EtcdGrpc['methods']['Watch']): ClientDuplexStream<object, object> {
    const { path, requestSerialize, responseDeserialize } = method;
    return this.client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, this.metadata());
  }

  /**
   * With the metadata `hasleader`, a member that has no leader refuses a request at once. Without it, the request would hang
   * until its timeout.
   */
  private metadata(): Metadata {
    const metadata = new this.etcd.grpc.Metadata();
    metadata.set('hasleader', 'true');
    if (this.token !== undefined) metadata.set('token', this.token);
    return metadata;
  }
}

/** A request that was sent. `cancel` rejects its reply. */
interface Exchange<Reply> {
  readonly reply: Promise<Reply>;
  readonly cancel: () => void;
}

type WatchStream = ClientDuplexStream<WatchRequest, WatchReply>;

function credentialsOf({ credentials }: EtcdGrpc['grpc'], tls: EtcdTls | undefined): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  const [ca, key, cert] = [tls.ca, tls.key, tls.cert].map((pem) =>
    pem === undefined ? null : Buffer.from(pem as string),
  ) as [Buffer | null, Buffer | null, Buffer | null];
  return credentials.createSsl(ca, key, cert);
}

/**
 * Returns the set of open sockets that gRPC makes with these credentials, so that `destroy` can close them. Use the credentials
 * for one client only.
 *
 * `Client.close` of gRPC forgets a socket that is still connecting. If the server accepts connections but never replies (a
 * process stopped by SIGSTOP), each connection attempt would leave a socket open.
 */
function socketsOf(credentials: ChannelCredentials): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  const create = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...args) => {
    const connector = create(...args);
    const connect = connector.connect.bind(connector);
    connector.connect = (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      return connect(socket);
    };
    return connector;
  };
  return sockets;
}

/** The meaning of an error of etcd or of gRPC for the request that failed. */
export interface EtcdFailure extends StoreFailure {
  /** This member cannot serve requests now, so the client connects to the next one. */
  readonly isOfMember?: boolean;
  /** The batch was too large. `EtcdPipe` sends its requests again one by one. */
  readonly isTooLarge?: boolean;
  readonly needsToken?: boolean;
  readonly isLeaseGone?: boolean;
}

const ETCD = new ServerProtocol({ server: 'etcd', tls: 'the endpoint begins with https:' });

const CANCELLED = 1;
const UNKNOWN = 2;
const PERMISSION_DENIED = 7;
const FAILED_PRECONDITION = 9;
const UNIMPLEMENTED = 12;
const UNAVAILABLE = 14;

/**
 * If etcd replies with one of these gRPC status codes, it has executed nothing. With any other code it may have executed the
 * request.
 */
const REFUSALS: readonly number[] = [3, 5, 6, 7, 8, 9, 11, 12, 16];

/** Error texts of gRPC which say that it has not sent the request. With any other text the request may have been sent. */
const NOT_SENT = /^(No connection established|Name resolution failed|Channel closed before call started)/;

const FULL =
  'its database is as large as its quota (NOSPACE). Compact it, run etcdctl defrag, and then etcdctl alarm disarm. Each lock makes two revisions: set --auto-compaction-retention, or raise --quota-backend-bytes';

/** Matches error texts that come from etcd itself, and gRPC's text for a message that is larger than the receiver accepts. */
const OWN = /^(etcdserver|auth|grpc(?=: received message larger)): /;

/**
 * The meaning of each error text of etcd, without its "etcdserver: ". The first match counts, so a longer text stands before a
 * shorter one that it contains. An empty `detail` shows etcd's own text to the user.
 */
const OWN_WORDS: readonly (readonly [said: RegExp, failure: EtcdFailure])[] = [
  // etcd executes the request that exceeds the quota, and refuses the writes after it. Both get this error, so it is `unknown`
  // which one this was.
  [/database space exceeded/, { reason: 'unknown', isAnswered: true, detail: FULL }],
  [/too many requests/, unready('it has too many requests under way. Its disk or its network is too slow')],
  [/no leader/, unready('it has no leader', { isOfMember: true })],
  [/not supported for learner|not capable|unhealthy cluster|corrupt/, unready('', { isOfMember: true })],
  [/requested lease not found/, unready('the lease of this client is over', { isLeaseGone: true })],
  [
    /invalid auth token|revision of auth store is old/,
    unready('the token of the user is not valid any more', { needsToken: true }),
  ],
  [/invalid user ID or password/, refused('user or password is wrong')],
  [/user name (is empty|not found)/, refused('it asks for a user. Give etcdStore the option auth')],
  [
    /permission denied/,
    refused(
      'its user lacks rights on the keys of the locks. Run etcdctl role grant-permission <role> readwrite --prefix=true <root>',
    ),
  ],
  [
    /too many operations/,
    refused(
      'a transaction has too many operations. Acquire fewer keys together, or raise --max-txn-ops, which is 128 by default',
    ),
  ],
  [
    /request is too large|message larger than max/,
    { ...refused('a request is too large. Raise --max-request-bytes'), isTooLarge: true },
  ],
  // etcd gave up a request on which it had begun: any part may have been executed.
  [/request timed out|leader changed|stopped/, { reason: 'unknown', detail: '', isOfMember: true }],
];

export function etcdFailure(error: unknown): EtcdFailure {
  if (error instanceof LockConfigurationError) return refused(error.message);
  const { code, details } = grpcErrorIn(error);
  if (typeof code !== 'number' || typeof details !== 'string') {
    return { reason: 'unknown', detail: textOf(error), isOfMember: true };
  }
  if (OWN.test(details)) return failureIn(details, code);
  if (NOT_SENT.test(details)) return { reason: 'unreachable', detail: shortened(details), isOfMember: true };
  if (code === CANCELLED)
    return { reason: 'unknown', detail: 'the connection was given up', isOfMember: true };
  if (code === UNIMPLEMENTED) {
    return { ...refused(`${details}. Is it an etcd of version 3.4 or later?`), isOfMember: true };
  }
  if (code === PERMISSION_DENIED) return refused(details);
  const isConnection = code === UNAVAILABLE || code === UNKNOWN;
  const detail = isConnection ? details : `${details} (gRPC ${code})`;
  return { reason: 'unknown', detail, isOfMember: true };
}

/** Reads gRPC's code and text from an error. If the error ends a watch, etcd writes both into its message. */
function grpcErrorIn(error: unknown): { readonly code?: unknown; readonly details?: unknown } {
  const [, name, details] = /^rpc error: code = (\w+) desc = (.*)$/s.exec(textOf(error)) ?? [];
  if (name === undefined) return error as { readonly code?: unknown; readonly details?: unknown };
  return { code: /^(Unavailable|Unknown)$/.test(name) ? UNAVAILABLE : FAILED_PRECONDITION, details };
}

function failureIn(details: string, code: number): EtcdFailure {
  const said = details.replace(/^\w+: /, '');
  const [, known] = OWN_WORDS.find(([pattern]) => pattern.test(said)) ?? [];
  if (!known && !REFUSALS.includes(code)) return { reason: 'unknown', detail: said, isOfMember: true };
  if (!known) return refused(said);
  return known.detail === '' ? { ...known, detail: said } : known;
}

/**
 * Removes gRPC's notes on name resolution ("Resolution note: …") from an error text, and adds the likely cause, because gRPC does
 * not say what kind of server has answered.
 */
function shortened(details: string): string {
  const last = /Last error: (?:null|(.*?))\. Resolution note:/s.exec(details)?.[1];
  const said = last ? last.replace(/^Error: /, '') : details.replace(/\. Resolution note:.*$/, '');
  const [noHttp2] = /^(Protocol error|Parse Error|Failed to connect)/.exec(said) ?? [];
  if (noHttp2 !== undefined) {
    return `${noHttp2}: no etcd answers there, or it speaks TLS and the endpoint does not begin with https:`;
  }
  if (said.startsWith('read ECONNRESET')) return `${said}: ${ETCD.closedUnanswered()}`;
  return textOf({ message: said });
}

function unready(detail: string, flags: Partial<EtcdFailure> = {}): EtcdFailure {
  return { reason: 'unready', detail, ...flags };
}

function refused(detail: string): EtcdFailure {
  return { reason: 'refused', detail };
}
