import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { systemClock, type Clock } from '../../common/clock.js';
import type { StoreCapability } from '../../port/capabilities.js';
import type { LockStore, LockStoreFactory } from '../../port/lock-store.js';
import { TestOwner, type AcquireOptions } from './test-owner.js';

const SHORT_LEASE_MS = 150;
const STEP_MS = 10;
const PATIENCE_MS = 8000;

/** The stage of one case of the contract: a key of its own, and as many clients and owners as it creates. */
export class Stage {
  readonly key = `contract:${randomUUID()}`;
  readonly clock: Clock;
  /** The lease for holders that are to expire, scaled by `timeScale`. */
  readonly shortLeaseMs: number;
  private readonly clients: LockStore[] = [];
  private readonly scale: number;
  private ownerCount = 0;

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

  /** Creates an owner, on a client of its own unless one is given. */
  owner({ client = this.client(), key = this.key } = {}): TestOwner {
    return this.ownerNamed(client, String(++this.ownerCount), key);
  }

  /** Creates `count` owners, each on a client of its own. */
  owners<Count extends number>(count: Count): Owners<Count> {
    return Array.from({ length: count }, () => this.owner()) as Owners<Count>;
  }

  /** Creates owners as `owners` does, and lets the first of them acquire the key. */
  async held<Count extends number>(count: Count, options?: AcquireOptions): Promise<Owners<Count>> {
    const owners = this.owners(count);
    await (owners as readonly TestOwner[])[0]?.acquire(options);
    return owners;
  }

  /** Creates owners as `owners` does, and lets all of them acquire the key together. */
  async holders<Count extends number>(count: Count, options: AcquireOptions): Promise<Owners<Count>> {
    const owners = this.owners(count);
    for (const owner of owners as readonly TestOwner[]) await owner.acquire(options);
    return owners;
  }

  /** Creates an owner with this number, which the client must not have used before. */
  ownerNamed(client: LockStore, number: string, key = this.key): TestOwner {
    return new TestOwner(this, client, `${client.clientId}:${number}`, key);
  }

  /** Creates an owner whose client is certain to receive notifications, so that a case can rely on them. */
  async subscribedOwner(): Promise<TestOwner> {
    const client = this.client();
    const other = this.client();
    await this.eventually(`notifications reach ${client.clientId}`, async () => {
      const key = `${this.key}:warm-up:${randomUUID()}`;
      const [holder, waiter] = [this.owner({ client: other, key }), this.owner({ client, key })];
      await holder.acquire();
      await waiter.queue();
      await holder.release();
      await this.pass(STEP_MS);
      await waiter.release();
      return waiter.wasNotified('granted');
    });
    return this.owner({ client });
  }

  async pass(ms: number): Promise<void> {
    if (this.backEnd.pass) return this.backEnd.pass(ms);
    await new Promise<void>((resolve) => this.clock.after(ms, resolve));
  }

  /** Lets time pass until the condition is true. Fails the case if that takes longer than `PATIENCE_MS`. */
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

/** A back end to test, and how time passes for it. */
export interface StoreUnderTest {
  /** Each `create` opens another client of the back end. */
  readonly store: LockStoreFactory;
  /** Default: the clock of the machine. */
  readonly clock?: Clock;
  /** Lets this many ms pass for the back end and for `clock`. Default: waits for that time. */
  pass?(ms: number): Promise<void>;
  /** Multiplies all times of the suite, for slow machines or back ends. Default: 1. */
  readonly timeScale?: number;
}

/** One test of a store. `needs` names an optional capability; for a store without it the case does not run. */
interface ContractCase {
  (stage: Stage): Promise<void>;
  readonly needs?: StoreCapability;
}

/**
 * Cases by name. The name is a sentence that is true of a correct store. A store that deviates from the case declares that by this
 * name.
 */
export type ContractGroup = Readonly<Record<string, ContractCase>>;

/** Returns the cases, marked so that they run only for stores with this capability. */
export function needing<Cases extends ContractGroup>(needs: StoreCapability, cases: Cases): Cases {
  for (const check of Object.values(cases)) Object.assign(check, { needs });
  return cases;
}

type Owners<Count extends number, Found extends TestOwner[] = []> = Found['length'] extends Count
  ? Found
  : Owners<Count, [...Found, TestOwner]>;
