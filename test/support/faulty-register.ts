import { LockStoreError } from '../../libs/distributed-lock/src/port/lock.errors.js';
import type { LockStoreContext } from '../../libs/distributed-lock/src/port/lock-store.js';
import { DocumentStore } from '../../libs/distributed-lock/src/stores/core/document.store.js';
import type { Reading } from '../../libs/distributed-lock/src/stores/core/reading.js';
import type {
  NotFree,
  Register,
  RegisterListener,
  Swap,
  SwapReply,
  Take,
  TakeReply,
} from '../../libs/distributed-lock/src/stores/core/register.js';
import type { Clock } from '../../libs/distributed-lock/src/time/clock.js';
import type { Fate } from '../../libs/distributed-lock/src/testing/index.js';
import { RegisterRows } from './register-rows.js';

/** The fate of one call of a register: what may happen to any request, and what happens to swaps alone. */
export interface RegisterFate extends Fate {
  /** Another client writes the document just before this call is executed, so that its version is another one. */
  readonly isOvertaken?: boolean;
  /** The connection breaks so many ms after sending: no reply comes, and the request may still be executed. */
  readonly brokenAfterMs?: number;
}

/** Decides over each call and each notification; `undefined` lets it pass at once. May be changed at any time. */
export interface RegisterFaults {
  command?: () => RegisterFate | undefined;
  /** When a notification is delivered, in ms from now, once for each entry: `[]` is lost. */
  notification?: () => readonly number[] | undefined;
  /** Runs what has arrived, or what a timer of the connection does: later, while the process is stopped or asleep. */
  arrive?: (task: () => void) => void;
}

export const COMMAND_TIMEOUT_MS = 100;
const INITIAL_LEASE_MS = 1000;

/** A server that keeps rows, with a clock of its own, and a network before it that delays, loses and repeats. */
export class FaultyServer {
  /** The server's clock is ahead of `clock` by so many ms. A test may let it jump. */
  offsetMs = 1_700_000_000_000;
  readonly rows: RegisterRows;
  private readonly listeners = new Map<string, (name: string, parse: () => Reading) => void>();
  private clients = 0;

  /** @param clock of the server and of the network, in which the clients' clocks may drift */
  constructor(readonly clock: Clock) {
    this.rows = new RegisterRows(
      () => Math.floor((clock.now() + this.offsetMs) * 1000),
      (client, name, parse) => this.listeners.get(client)?.(name, parse),
    );
  }

  create(context: LockStoreContext, faults: RegisterFaults): DocumentStore {
    const clientId = `client${++this.clients}`;
    return new DocumentStore(
      'faulty',
      clientId,
      new FaultyRegister(clientId, this, context.clock, faults),
      context,
    );
  }

  connect(clientId: string, deliver: (name: string, parse: () => Reading) => void): void {
    this.listeners.set(clientId, deliver);
  }

  disconnect(clientId: string): void {
    this.listeners.delete(clientId);
  }
}

/** One client's remote register: each call is one request to the server, and its text is what travels. */
class FaultyRegister implements Register {
  readonly commandTimeoutMs = COMMAND_TIMEOUT_MS;
  readonly initialLeaseMs = INITIAL_LEASE_MS;
  readonly mayLoseWrites = true;
  readonly isRemote = true;
  private readonly cancels = new Set<() => void>();
  private listener: RegisterListener | undefined;
  private isClosed = false;
  private hasConnected = false;

  constructor(
    private readonly clientId: string,
    private readonly server: FaultyServer,
    /** The client's own, which may drift. */
    private readonly clock: Clock,
    private readonly faults: RegisterFaults,
  ) {}

  listen(listener: RegisterListener): void {
    this.listener = listener;
    this.server.connect(this.clientId, (name, parse) => {
      for (const ms of this.faults.notification?.() ?? [0]) {
        // Not within the call of the client that notifies.
        this.after(ms, () => queueMicrotask(() => this.isClosed || listener.onReading(name, parse())));
      }
    });
  }

  take(take: Take): Promise<TakeReply> {
    return this.send([take.name], take, () => this.server.rows.take(take));
  }

  takeAll(takes: readonly Take[]): Promise<readonly Reading[] | NotFree> {
    const names = takes.map(({ name }) => name);
    const write = { notAfter: () => Math.min(...takes.map((take) => take.notAfter())) };
    return this.send(names, write, () => this.server.rows.takeAll(takes));
  }

  swap(swap: Swap): Promise<SwapReply> {
    return this.send([swap.name], swap, () => this.server.rows.swap(swap));
  }

  read(name: string): Promise<Reading> {
    return this.send([name], undefined, () => this.server.rows.read(name));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.server.disconnect(this.clientId);
    for (const cancel of this.cancels) cancel();
    this.cancels.clear();
  }

  /** @param execute one atomic step of the server; the client parses the reply when it arrives */
  private send<Reply>(
    names: readonly string[],
    write: { notAfter(): number } | undefined,
    execute: () => () => Reply,
  ): Promise<Reply> {
    const fate = this.faults.command?.() ?? {};
    const { executedAfterMs = [0], repliedAfterMs = 0, isOvertaken, brokenAfterMs = Infinity } = fate;
    const { rows } = this.server;
    const [name = ''] = names;
    if (this.isClosed) return Promise.reject(new LockStoreError('The register is closed', name, 'unready'));
    this.connect();
    const notAfter = write?.notAfter() ?? Infinity;
    return new Promise((resolve, reject) => {
      // A connection carries a request once: after its reply no copy of it is left.
      let isAnswered = false;
      const lost = new LockStoreError('The network lost it: nothing came back', name, 'unknown');
      const patienceMs = Math.min(COMMAND_TIMEOUT_MS, brokenAfterMs);
      const cancelTimeout = this.after(patienceMs, () => reject(lost));
      const answer = (settle: () => void): void => {
        if (repliedAfterMs === 'never' || brokenAfterMs < Infinity) return;
        this.after(repliedAfterMs, () => {
          isAnswered = true;
          cancelTimeout();
          settle();
        });
      };
      for (const [i, ms] of executedAfterMs.entries()) {
        this.afterOnServer(ms, () => {
          if (isAnswered) return;
          const first = i === 0 ? answer : () => undefined;
          if (rows.now > notAfter) return first(() => reject(this.expired(name)));
          if (isOvertaken) for (const each of names) rows.rewrite(each);
          const parse = execute();
          first(() => {
            try {
              resolve(parse());
            } catch (error) {
              reject(error as Error);
            }
          });
        });
      }
    });
  }

  /** A new connection tells the time before its first request. */
  private connect(): void {
    if (this.hasConnected) return;
    this.hasConnected = true;
    this.tellTime();
  }

  private tellTime(): void {
    this.listener?.onTime(this.server.rows.now, this.clock.now());
  }

  /** As a server whose clock was set: the refusal tells its time. */
  private expired(name: string): LockStoreError {
    this.tellTime();
    return new LockStoreError('The server refused the request after its not-after', name, 'unready');
  }

  /** Of this client: a crash or a close ends it. At once when there is nothing to wait for. */
  private after(ms: number, task: () => void): () => void {
    const arrive = this.faults.arrive ?? ((arrived) => arrived());
    if (ms <= 0) {
      arrive(task);
      return () => undefined;
    }
    let isCancelled = false;
    const stop = this.server.clock.after(ms, () => {
      this.cancels.delete(cancel);
      arrive(() => isCancelled || task());
    });
    const cancel = (): void => {
      isCancelled = true;
      stop();
    };
    this.cancels.add(cancel);
    return () => {
      this.cancels.delete(cancel);
      cancel();
    };
  }

  /** Of the network: what was sent is executed even if its client is gone. */
  private afterOnServer(ms: number, task: () => void): void {
    if (ms <= 0) task();
    else this.server.clock.after(ms, task);
  }
}
