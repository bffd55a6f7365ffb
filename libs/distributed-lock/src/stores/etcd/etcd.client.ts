import { inBackground } from '../../async-context/in-background.js';
import { LockConfigurationError, type LockStoreError } from '../../port/lock.errors.js';
import type { StoreState } from '../../port/lock-store.js';
import { conceal } from '../../redaction/conceal.js';
import { afterReading } from '../../time/after-reading.js';
import type { Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import { Outage } from '../common/outage.js';
import { reconnectDelay } from '../common/reconnect-delay.js';
import { storeError } from '../common/store-error.js';
import { etcdFailure, type EtcdFailure } from './etcd.failure.js';
import { loadGrpc, type EtcdGrpc } from './etcd.grpc.js';
import { EtcdMember } from './etcd.member.js';
import type { CallName, Calls } from './etcd.messages.js';
import { credentialsOf, type EtcdTarget } from './etcd.target.js';

interface ClientOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
  /** Default: the packages of gRPC. */
  readonly loadGrpc?: (() => Promise<EtcdGrpc>) | undefined;
  readonly onState?: ((state: StoreState) => void) | undefined;
}

interface CallOptions {
  /** The key for errors. */
  readonly key?: string | undefined;
  /** It may be executed twice, so it is sent again after no reply. */
  readonly mayRepeat?: boolean;
}

/** A request without a member to send it to. */
interface Waiting {
  readonly key: string | undefined;
  readonly resolve: (member: EtcdMember) => void;
  readonly reject: (error: Error) => void;
}

/** A member that was open for so long was of use. */
const STABLE_MS = 1000;
/** The oldest release whose transactions contain others, and compare ranges. */
const OLDEST = [3, 4] as const;

/** Knows the members of the cluster and is connected to one of them. One that fails is replaced by the next. */
export class EtcdClient {
  member: EtcdMember | undefined;
  /** Called with each member that is open. */
  onOpen: (member: EtcdMember) => void = () => undefined;
  /** Called when each member was tried and the last one has refused this client. */
  onRefused: () => void = () => undefined;
  private readonly outage: Outage;
  private readonly waiting = new Set<Waiting>();
  private token: string | undefined;
  private loading: Promise<EtcdGrpc> | undefined;
  private next = 0;
  private failures = 0;
  private openedAt = -Infinity;
  private opening: AbortController | undefined;
  private cancelReconnect = (): void => undefined;
  private isClosed = false;
  private lastFailure: EtcdFailure | undefined;
  private lastError: unknown;

  constructor(
    private readonly target: EtcdTarget,
    private readonly options: ClientOptions,
  ) {
    conceal(this, 'target', 'token', 'member');
    this.outage = new Outage(
      options,
      () => this.noMember(`no connection for ${options.commandTimeoutMs} ms`, undefined) as LockStoreError,
    );
  }

  start(): void {
    this.outage.onDown();
    inBackground(
      this.grpc().then(() => this.connect()),
      (error) => this.onDown(error),
    );
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
    const stop = afterReading(clock, ms, () => deadline.abort());
    try {
      for (;;) {
        const member = await this.untilOpen(deadline.signal, key);
        const { reply, cancel } = member.call(name, request);
        deadline.signal.addEventListener('abort', cancel);
        try {
          return await reply;
        } catch (cause) {
          const error = deadline.signal.aborted ? new Error(`nothing came back within ${ms} ms`) : cause;
          const failure = etcdFailure(error);
          this.onFailure(member, failure, error);
          if (this.isClosed) throw this.closedError(key, 'unknown');
          const isSafe = mayRepeat || failure.reason !== 'unknown';
          const mayHelp = failure.isOfMember || failure.needsToken;
          if (deadline.signal.aborted || !isSafe || !mayHelp) throw this.errorOf(failure, key, error);
        } finally {
          deadline.signal.removeEventListener('abort', cancel);
        }
      }
    } finally {
      stop();
    }
  }

  /** What a failed request says about its member. */
  onFailure(member: EtcdMember, failure: EtcdFailure, error: unknown): void {
    if (failure.needsToken) this.token = undefined;
    if (failure.needsToken || failure.isOfMember) this.lost(member, error);
  }

  errorOf(failure: EtcdFailure, key: string | undefined, cause?: unknown): Error {
    if (cause instanceof LockConfigurationError) return cause;
    return storeError('etcd', failure, key, cause);
  }

  /** The error of a request that was never sent. */
  noMember(what: string, key: string | undefined): LockStoreError | LockConfigurationError {
    const { lastFailure: last, lastError } = this;
    if (lastError instanceof LockConfigurationError) return lastError;
    if (last?.reason === 'refused' || last?.reason === 'unready') {
      return storeError('etcd', last, key, lastError);
    }
    const detail = last ? `${what} (last error: ${last.detail})` : what;
    return storeError('etcd', { reason: 'unreachable', detail }, key, lastError);
  }

  closedError(key: string | undefined, reason: 'unreachable' | 'unknown' = 'unreachable'): LockStoreError {
    return storeError('etcd', { reason, detail: 'the store is closed' }, key);
  }

  /** Rejects the requests under way. Leaves no connection and no timer, whatever the members do. */
  close(): void {
    this.isClosed = true;
    this.outage.end();
    this.cancelReconnect();
    this.opening?.abort();
    const { member } = this;
    this.member = undefined;
    member?.destroy();
    for (const { key, reject } of this.waiting) reject(this.closedError(key));
  }

  /** Loading it takes some hundred ms of the first request, for which no member is to blame. */
  private grpc(): Promise<EtcdGrpc> {
    return (this.loading ??= (this.options.loadGrpc ?? loadGrpc)());
  }

  private async untilOpen(deadline: AbortSignal, key: string | undefined): Promise<EtcdMember> {
    if (this.isClosed) throw this.closedError(key);
    if (this.member) return this.member;
    const late = (): Error => this.noMember(`no connection within ${this.options.commandTimeoutMs} ms`, key);
    let stop = (): void => undefined;
    try {
      return await new Promise<EtcdMember>((resolve, reject) => {
        const waiting = { key, resolve, reject };
        const onLate = (): void => reject(late());
        deadline.addEventListener('abort', onLate);
        this.waiting.add(waiting);
        stop = () => {
          deadline.removeEventListener('abort', onLate);
          this.waiting.delete(waiting);
        };
        if (deadline.aborted) onLate();
      });
    } finally {
      stop();
    }
  }

  // --- connected, lost ------------------------------------------------------------------------------------------

  private connect(): void {
    if (this.isClosed) return;
    const { clock, commandTimeoutMs } = this.options;
    const { endpoints } = this.target;
    const endpoint = endpoints[this.next++ % endpoints.length] as string;
    const opening = (this.opening = new AbortController());
    // A request that waits for a connection has time for a second member.
    const ms = endpoints.length > 1 && !this.needsToken ? commandTimeoutMs / 2 : commandTimeoutMs;
    const cancel = afterReading(clock, ms, () =>
      opening.abort(new Error(`${endpoint} did not reply within ${ms} ms`)),
    );
    opening.signal.addEventListener('abort', () => this.onNotOpen(opening.signal.reason, opening.signal));
    inBackground(
      this.open(endpoint, opening.signal)
        .finally(cancel)
        .then((member) => this.onMember(member, opening.signal)),
      (error) => this.onNotOpen(error, opening.signal),
    );
  }

  private async open(endpoint: string, signal: AbortSignal): Promise<EtcdMember> {
    const etcd = await this.grpc();
    signal.throwIfAborted();
    const { tls } = this.target;
    const member = new EtcdMember(endpoint, etcd, credentialsOf(etcd.grpc, tls), tls?.servername);
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

  /** To check a password takes etcd long, on purpose. */
  private get needsToken(): boolean {
    return this.target.auth !== undefined && this.token === undefined;
  }

  private async authenticate(member: EtcdMember): Promise<string | undefined> {
    const { auth } = this.target;
    if (!auth) return undefined;
    const { user: name, password } = auth;
    try {
      return (await member.call('Authenticate', { name, password }).reply).token;
    } catch (error) {
      // A cluster without users takes everybody.
      if (/authentication is not enabled/.test((error as Error).message)) return undefined;
      throw error;
    }
  }

  private onMember(member: EtcdMember, signal: AbortSignal): void {
    if (this.isClosed || signal.aborted) return member.destroy();
    this.member = member;
    this.openedAt = this.options.clock.now();
    this.lastFailure = this.lastError = undefined;
    this.outage.onUp();
    this.onOpen(member);
    for (const { resolve } of this.waiting) resolve(member);
  }

  private onNotOpen(error: unknown, signal: AbortSignal): void {
    if (this.opening?.signal !== signal || this.isClosed) return;
    this.opening = undefined;
    this.onDown(error);
  }

  /** The next member is opened. */
  private lost(member: EtcdMember, error: unknown): void {
    if (this.member !== member) return;
    this.member = undefined;
    member.destroy();
    // One that fails as soon as it is open is given time, as one that does not open.
    if (this.options.clock.now() - this.openedAt > STABLE_MS) this.failures = 0;
    this.onDown(error);
  }

  private onDown(error: unknown): void {
    if (this.isClosed) return;
    const { endpoints } = this.target;
    this.lastError = error;
    this.lastFailure = etcdFailure(error);
    this.outage.onDown();
    this.cancelReconnect();
    const failures = this.failures++;
    // Each member is tried at once, and then they are given time.
    if (failures < endpoints.length) this.connect();
    else {
      const { clock, chance } = this.options;
      const ms = reconnectDelay(chance, failures - endpoints.length);
      this.cancelReconnect = clock.after(ms, () => this.connect());
    }
    if (this.failures > endpoints.length && this.lastFailure.reason === 'refused') this.refuseWaiting();
  }

  /** A cluster that refuses this client will refuse it again: its callers need not wait for their deadlines. */
  private refuseWaiting(): void {
    for (const { key, reject } of this.waiting) reject(this.noMember('no connection', key));
    this.onRefused();
  }
}

function checkVersion(version: string, endpoint: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new LockConfigurationError(
    `etcdStore needs etcd ${OLDEST.join('.')} or later; ${endpoint} is ${version}.`,
  );
}
