import { Locked, type LockError } from 'nestjs-distributed-lock';
import { TestLocks } from 'nestjs-distributed-lock/testing';

class Orders {
  constructor(private readonly ledger: { charge(id: number): Promise<void> }) {}

  @Locked('order:<id>')
  async pay(id: number): Promise<string> {
    await this.ledger.charge(id);
    return `paid ${id}`;
  }
}

// In each test, or in beforeEach:
const locks = new TestLocks({ waitMs: 0 });
const orders = locks.injectInto(new Orders({ charge: async () => undefined }));

console.log(await orders.pay(1)); // paid 1
console.log(locks.acquired); // [ 'order:1' ]

const other = await locks.acquire('order:2');
console.log(await orders.pay(2).catch((error: LockError) => error.code)); // LOCK_WAIT_TIMEOUT
await other.release();
