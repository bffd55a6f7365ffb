import { Test } from '@nestjs/testing';
import { DistributedLockModule, Locked } from 'nestjs-distributed-lock';

class Orders {
  @Locked('order:<id>')
  async pay(id: number): Promise<string> {
    return `paid ${id}`;
  }
}

const module = await Test.createTestingModule({
  imports: [DistributedLockModule.forRoot()], // memoryStore()
  providers: [Orders],
}).compile();
console.log(await module.get(Orders).pay(1));
await module.close();
