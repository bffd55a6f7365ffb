import { Test } from '@nestjs/testing';
import { Locked, getLockServiceToken } from 'nestjs-distributed-lock';
import { TestLocks } from 'nestjs-distributed-lock/testing';

class Orders {
  @Locked('order:<id>')
  async pay(id: number): Promise<string> {
    return `paid ${id}`;
  }
}

const locks = new TestLocks();
const module = await Test.createTestingModule({ providers: [Orders] })
  .useMocker((token) => (token === getLockServiceToken() ? locks : {})) // or createMock() of @golevelup/ts-jest
  .compile();
console.log(await module.get(Orders).pay(1), locks.acquired); // paid 1 [ 'order:1' ]
await module.close();
await locks.close();
