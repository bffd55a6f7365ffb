import { type Chance, type Clock, giveUpAfter } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { ConnectionErrors } from '../connection/connection-errors.js';
import { type Attempt, KeptConnection, Openings } from '../connection/kept-connection.js';
import type { StoreState } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { EtcdKeys } from './backend.js';
import { type Calls, type EtcdGrpc, loadGrpc } from './grpc.js';
import { etcdFailure, type EtcdFailure, EtcdMember } from './member.js';
import type { EtcdTarget } from './store.js';

/** Node may fire a timer this many ms early. */
const TIMER_EARLY_MS = 1;
/** The oldest release of etcd that this store is tested with: 3.4. */
const OLDEST = [3, 4] as const;

/** Keeps a connection to one member of the cluster and sends requests to it. If that member fails, connects to the next one. */
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

  /** Loads gRPC, which takes some hundred ms, and then connects. The time limit of the first connection starts only after that. */
  start(): void {
    const start = (): void => this.kept.start();
    inBackground(this.grpc().then(start), start);
  }

  /**
   * Sends a request to the connected member. If that member fails and a repetition is safe, sends the request to the next member
   * as well, until `commandTimeoutMs` has passed.
   *
   * @throws LockStoreError
   */
  async call<Name extends keyof Calls>(
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
          // Blame the member only if it had all of `commandTimeoutMs` to reply. If the request first waited for a connection, it
          // had less.
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

  /**
   * Gives up the connection to the member if the error says that the member cannot serve requests now, or that the auth token is
   * not valid.
   */
  onFailure(member: EtcdMember, failure: EtcdFailure, error: unknown): void {
    if (failure.needsToken) this.token = undefined;
    if (failure.needsToken || failure.isOfMember) this.kept.lose(member, error);
  }

  /**
   * Rejects the requests under way and closes the connection. Afterwards no socket and no timer is left, even if a member does
   * not react.
   */
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

  private attempt(): Attempt<EtcdMember> {
    const { commandTimeoutMs } = this.options;
    const { endpoints, auth } = this.target;
    const endpoint = endpoints[this.attempts++ % endpoints.length] as string;
    // Without a token, connecting includes a password check, which etcd makes slow on purpose (bcrypt). Give it the full time.
    const needsToken = auth !== undefined && this.token === undefined;
    // With several members, a connection attempt gets half of `commandTimeoutMs`, so that a waiting request still can try a
    // second member.
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
      // The cluster has no users and lets every client in, so no token is needed.
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
    // Every member was tried and this client was refused, which a retry will not change. So fail waiting calls now, not at their
    // deadlines.
    this.openings.refuse((key) => this.errors.unsent('no connection', key));
    this.onRefused();
  }
}

/** The parts that `EtcdBackend` passes to the pipe, the sessions and the mailbox of its client. */
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
  /** If etcd executes the request twice, no harm is done. So the client sends it again when it gets no reply. */
  readonly mayRepeat?: boolean;
}

function checkVersion(version: string, endpoint: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new LockConfigurationError(
    `etcdStore needs etcd ${OLDEST.join('.')} or later; ${endpoint} is ${version}.`,
  );
}
