import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { systemClock, type Clock } from '../../time/clock.js';
import type { LockStore, LockStoreFactory } from '../../port/lock-store.js';
import { Contender } from './contender.js';

/** A back end with its way of letting time pass. */
export interface StoreUnderTest {
  /** Each `create` makes one more client of the same back end. */
  readonly store: LockStoreFactory;
  /** Default: the system's clock. */
  readonly clock?: Clock;
  /** Lets this many ms pass for the back end and for `clock`. Default: waits that long. */
  pass?(ms: number): Promise<void>;
  /** For slow machines or back ends: all times of the suite are multiplied by it; default 1. */
  readonly timeScale?: number;
}

const SHORT_LEASE_MS = 150;
const STEP_MS = 10;
const PATIENCE_MS = 8000;

/** What one case has: a key that nobody else uses, and as many clients of the back end as it asks for. */
export class Bench {
  readonly key = `contract:${randomUUID()}`;
  readonly clock: Clock;
  /** A lease whose end a case waits for. */
  readonly shortLeaseMs: number;
  private readonly clients: LockStore[] = [];
  private readonly scale: number;
  private owners = 0;

  constructor(private readonly backEnd: StoreUnderTest) {
    this.clock = backEnd.clock ?? systemClock;
    this.scale = backEnd.timeScale ?? 1;
    this.shortLeaseMs = Math.ceil(SHORT_LEASE_MS * this.scale);
  }

  client({ keyPrefix = '' }: { readonly keyPrefix?: string } = {}): LockStore {
    const client = this.backEnd.store.create({ clock: this.clock, keyPrefix, watchdogTimeoutMs: 30_000 });
    this.clients.push(client);
    return client;
  }

  /** A new owner, at a client of its own unless one is given. */
  contender({ client = this.client(), key = this.key } = {}): Contender {
    return this.ownerNamed(client, String(++this.owners), key);
  }

  /** An owner with this number, which must be new to its client. */
  ownerNamed(client: LockStore, number: string, key = this.key): Contender {
    return new Contender(this, client, `${client.clientId}:${number}`, key);
  }

  /** One whose client is known to receive pushes, so that a case can rely on them. */
  async listener(): Promise<Contender> {
    const client = this.client();
    const other = this.client();
    await this.eventually(`pushes reach ${client.clientId}`, async () => {
      const key = `${this.key}:warm-up:${randomUUID()}`;
      const [holder, waiter] = [this.contender({ client: other, key }), this.contender({ client, key })];
      await holder.acquire();
      await waiter.queue();
      await holder.end();
      await this.pass(STEP_MS);
      await waiter.end();
      return waiter.pushes.some((push) => push.kind === 'granted');
    });
    return this.contender({ client });
  }

  async pass(ms: number): Promise<void> {
    if (this.backEnd.pass) return this.backEnd.pass(ms);
    await new Promise<void>((resolve) => this.clock.after(ms, resolve));
  }

  /** Lets time pass until it is so. */
  async eventually(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = this.clock.now() + PATIENCE_MS * this.scale;
    while (!(await isSo())) {
      assert.ok(this.clock.now() < deadline, `Not within ${PATIENCE_MS * this.scale} ms: ${what}`);
      await this.pass(STEP_MS);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close()));
  }
}
