import { Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, Locked, LockService } from 'nestjs-distributed-lock';
import { TestLocks } from 'nestjs-distributed-lock/testing';

class Orders {
  @Locked('order:<id>')
  async pay(id: number): Promise<string> {
    return `paid ${id}`;
  }
}

@Module({ imports: [DistributedLockModule.forRoot()], providers: [Orders] })
class AppModule {}

const locks = new TestLocks();
const module = await Test.createTestingModule({ imports: [AppModule] })
  .overrideProvider(LockService) // of a registration with a name: getLockServiceToken('jobs')
  .useValue(locks)
  .compile();
await module.init();
console.log(await module.get(Orders).pay(2), locks.acquired); // paid 2 [ 'order:2' ]
await module.close();
await locks.close();
