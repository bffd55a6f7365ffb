import { LOCK } from '../../libs/distributed-lock/src/port/lock-store.js';
import type {
  AcquireRequest,
  Grant,
  Notification,
  ReleaseRequest,
  Renewal,
} from '../../libs/distributed-lock/src/port/lock-store.js';
import { DocumentStore } from '../../libs/distributed-lock/src/document/store.js';
import { SessionRegister } from '../../libs/distributed-lock/src/session/register.js';
import { follow } from '../support/lock-world.js';
import { NetworkedBackend, SESSION_MS, type Fate, type SessionServer } from './session-server.js';

export const KEY = 'goods';
let clients = 0;

/** A client of the server. The test decides over its next calls, and sees them and its notifications. */
export class SessionClient {
  readonly store: DocumentStore;
  readonly notifications: Notification[] = [];
  /** Of the calls to come, in order. All others pass. */
  fates: (Fate | undefined)[] = [];
  private isCut = false;
  pushesAfterMs: number | undefined = 0;

  constructor(server: SessionServer) {
    const id = `client${++clients}`;
    const context = { clock: server.clock, keyPrefix: '', watchdogTimeoutMs: SESSION_MS };
    const register = new SessionRegister(new NetworkedBackend(id, server, this), context);
    this.store = new DocumentStore({ name: 'sessions', clientId: id }, register, context);
    this.store.notifications$.subscribe((notification) => this.notifications.push(notification));
  }

  nextFate(): Fate | undefined {
    return this.isCut ? 'lost' : this.fates.shift();
  }

  owner(number: number): string {
    return `${this.store.clientId}:${number}`;
  }

  request(number: number, more: Partial<AcquireRequest> = {}): AcquireRequest {
    const owner = this.owner(number);
    return { key: KEY, owner, claim: LOCK, leaseMs: 5000, mayWait: false, ticket: 0, tokens: 1, ...more };
  }

  acquire(number: number, more: Partial<AcquireRequest> = {}) {
    return follow(this.store.acquire(this.request(number, more)));
  }

  wait(number: number, more: Partial<AcquireRequest> = {}) {
    return this.acquire(number, { mayWait: true, ...more });
  }

  release(number: number, more: Partial<ReleaseRequest> = {}) {
    return follow(this.store.release({ ...this.request(number), flush: 'now', ...more }));
  }

  renew(number: number, { token, lastToken }: Grant, more: Partial<Renewal> = {}) {
    return follow(this.store.renew([{ ...this.request(number), token, lastToken, ...more }]));
  }

  /** No command is executed or answered any more, and no notification arrives. */
  cut(): void {
    this.isCut = true;
    this.pushesAfterMs = undefined;
  }

  mend(): void {
    this.isCut = false;
    this.pushesAfterMs = 0;
  }

  /** The notifications of one owner, by their kinds. */
  told(number: number): readonly string[] {
    return this.notifications.filter(({ owner }) => owner === this.owner(number)).map(({ kind }) => kind);
  }
}
