import { type Chance, type Clock, giveUpAfter } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { ConnectionErrors } from '../connection/connection-errors.js';
import { type Attempt, KeptConnection, Openings } from '../connection/kept-connection.js';
import type { StoreState } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { EtcdKeys } from './backend.js';
import { type CallName, type Calls, type EtcdGrpc, loadGrpc } from './grpc.js';
import { etcdFailure, type EtcdFailure, EtcdMember } from './member.js';
import type { EtcdTarget } from './target.js';

/** A timer of Node may fire this many ms early. */
const TIMER_EARLY_MS = 1;
/** The oldest release that this store is tested with. */
const OLDEST = [3, 4] as const;

/** Knows the members of the cluster and is connected to one of them. A member that fails is replaced by the next one. */
export class EtcdClient {
  readonly errors: ConnectionErrors;
  onOpen: (member: EtcdMember) => void = () => undefined;
  /** Called when every member was tried in turn, and the last one has refused this client. */
  onRefused: () => void = () => undefined;
  private readonly kept: KeptConnection<EtcdMember>;
  private readonly openings: Openings<EtcdMember>;
  private token: string | undefined;
  private loading: Promise<EtcdGrpc> | undefined;
  private attempts = 0;
  private isClosed = false;

  constructor(
    private readonly target: EtcdTarget,
    private readonly options: ClientOptions,
  ) {
    conceal(this, 'target', 'token', 'kept');
    this.errors = new ConnectionErrors('etcd', target.endpoints.join(','));
    this.openings = new Openings(options.clock);
    this.kept = new KeptConnection({
      ...options,
      attempt: () => this.attempt(),
      quickAttempts: target.endpoints.length,
      onOpen: (member) => this.onMember(member),
      onDown: (error, failures) => this.onDown(error, failures),
      outageError: () => this.errors.noConnection(`no connection for ${options.commandTimeoutMs} ms`),
    });
  }

  get member(): EtcdMember | undefined {
    return this.kept.current;
  }

  /** Loads gRPC first, which takes some hundred ms. The deadline of the first member starts after that. */
  start(): void {
    const start = (): void => this.kept.start();
    inBackground(this.grpc().then(start), start);
  }

  /**
   * Sends a request to the member that is open, and to others after it where that is safe, until `commandTimeoutMs` is over.
   *
   * @throws LockStoreError
   */
  async call<Name extends CallName>(
    name: Name,
    request: Calls[Name]['request'],
    { key, mayRepeat = false }: CallOptions = {},
  ): Promise<Calls[Name]['reply']> {
    const { clock, commandTimeoutMs: ms } = this.options;
    await this.grpc();
    const deadline = new AbortController();
    const giveUpAt = clock.now() + ms;
    const stop = giveUpAfter(clock, ms, () => deadline.abort());
    try {
      for (;;) {
        const member = await this.untilOpen(giveUpAt - clock.now(), key);
        const sentAt = clock.now();
        const { reply, cancel } = member.call(name, request);
        deadline.signal.addEventListener('abort', cancel);
        try {
          return await reply;
        } catch (cause) {
          const error = deadline.signal.aborted ? new Error(`nothing came back within ${ms} ms`) : cause;
          const failure = etcdFailure(error);
          // A member that was connected while the request waited had less than the whole time to reply.
          const hadItsTime = !deadline.signal.aborted || clock.now() - sentAt >= ms - TIMER_EARLY_MS;
          if (hadItsTime) this.onFailure(member, failure, error);
          if (this.isClosed) throw this.errors.closed(key, 'unknown');
          const isSafe = mayRepeat || failure.reason !== 'unknown';
          const mayHelp = failure.isOfMember || failure.needsToken;
          if (deadline.signal.aborted || !isSafe || !mayHelp) throw this.errors.of(failure, key, error);
        } finally {
          deadline.signal.removeEventListener('abort', cancel);
        }
      }
    } finally {
      stop();
    }
  }

  /** Leaves the member if the failed request says that it is of no use now. */
  onFailure(member: EtcdMember, failure: EtcdFailure, error: unknown): void {
    if (failure.needsToken) this.token = undefined;
    if (failure.needsToken || failure.isOfMember) this.kept.lose(member, error);
  }

  /** Rejects the requests under way. Leaves no connection and no timer, whatever the members do. */
  close(): void {
    this.isClosed = true;
    this.kept.close();
    this.openings.refuse((key) => this.errors.closed(key));
  }

  private grpc(): Promise<EtcdGrpc> {
    return (this.loading ??= (this.options.loadGrpc ?? loadGrpc)());
  }

  private async untilOpen(withinMs: number, key: string | undefined): Promise<EtcdMember> {
    if (this.isClosed) throw this.errors.closed(key);
    const within = `no connection within ${this.options.commandTimeoutMs} ms`;
    const lateError = (): Error => this.errors.unsent(within, key);
    return this.member ?? this.openings.wait({ key, withinMs, lateError });
  }

  // --- connected, lost ------------------------------------------------------------------------------------------

  private attempt(): Attempt<EtcdMember> {
    const { commandTimeoutMs } = this.options;
    const { endpoints, auth } = this.target;
    const endpoint = endpoints[this.attempts++ % endpoints.length] as string;
    // etcd takes long to check a password, on purpose.
    const needsToken = auth !== undefined && this.token === undefined;
    // With half of the time, a request that waits for a connection can try a second member.
    const withinMs = endpoints.length > 1 && !needsToken ? commandTimeoutMs / 2 : commandTimeoutMs;
    return {
      withinMs,
      lateError: new Error(`${endpoint} did not reply within ${withinMs} ms`),
      open: (signal) => this.open(endpoint, signal),
    };
  }

  private async open(endpoint: string, signal: AbortSignal): Promise<EtcdMember> {
    const etcd = await this.grpc();
    signal.throwIfAborted();
    const member = new EtcdMember(endpoint, etcd, this.target.tls);
    const destroy = (): void => member.destroy();
    signal.addEventListener('abort', destroy);
    try {
      member.setToken((this.token ??= await this.authenticate(member)));
      const { version, leader } = await member.call('Status', {}).reply;
      checkVersion(version, endpoint);
      if (leader === 0) throw Object.assign(new Error(), { code: 14, details: 'etcdserver: no leader' });
      return member;
    } catch (error) {
      member.destroy();
      throw error;
    } finally {
      signal.removeEventListener('abort', destroy);
    }
  }

  private async authenticate(member: EtcdMember): Promise<string | undefined> {
    const { auth } = this.target;
    if (!auth) return undefined;
    const { user: name, password } = auth;
    try {
      return (await member.call('Authenticate', { name, password }).reply).token;
    } catch (error) {
      // A cluster without users lets every client in.
      if (/authentication is not enabled/.test((error as Error).message)) return undefined;
      throw error;
    }
  }

  private onMember(member: EtcdMember): void {
    this.errors.last = undefined;
    this.onOpen(member);
    this.openings.onOpen(member);
  }

  private onDown(error: unknown, failures: number): void {
    const failure = etcdFailure(error);
    this.errors.last = { failure, error };
    if (failures < this.target.endpoints.length || failure.reason !== 'refused') return;
    // A cluster that refuses this client will refuse it again: its callers need not wait for their deadlines.
    this.openings.refuse((key) => this.errors.unsent('no connection', key));
    this.onRefused();
  }
}

/** What the parts of one client share. */
export interface EtcdContext {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly clientId: string;
  readonly commandTimeoutMs: number;
  readonly watchdogTimeoutMs: number;
}

interface ClientOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
  readonly loadGrpc?: (() => Promise<EtcdGrpc>) | undefined;
  readonly onState?: ((state: StoreState) => void) | undefined;
}

interface CallOptions {
  readonly key?: string | undefined;
  /** The request may be executed twice, so the client sends it again when no reply comes. */
  readonly mayRepeat?: boolean;
}

function checkVersion(version: string, endpoint: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new LockConfigurationError(
    `etcdStore needs etcd ${OLDEST.join('.')} or later; ${endpoint} is ${version}.`,
  );
}
