import { Controller, Module, Param, Post, type OnApplicationShutdown } from '@nestjs/common';
import { Redis } from 'ioredis';
import { lockKey, type Lock } from 'nestjs-distributed-lock';
import {
  CurrentFence,
  Fenced,
  fencedRedis,
  FenceMemory,
  fencingHeaders,
  type Fence,
} from 'nestjs-distributed-lock/guard';

// The service that holds the lock tells the other under which key and token.
export function ship(url: string, id: number, lock: Lock): Promise<Response> {
  return fetch(`${url}/goods/${id}/ship`, { method: 'POST', headers: fencingHeaders(lock) });
}

const redis = new Redis(process.env['REDIS_URL'] ?? 'redis://localhost:6379', { lazyConnect: true });
const fences = fencedRedis(redis);

@Controller('goods')
export class ShippingController {
  @Post(':id/ship')
  @Fenced(({ params }) => lockKey`goods:${params['id'] ?? ''}`)
  async ship(@Param('id') id: string, @CurrentFence() fence: Fence): Promise<string> {
    await fences.hset(`shipment:${id}`, { state: 'shipped' }, fence); // refused there, too
    return 'shipped';
  }
}

@Module({
  controllers: [ShippingController],
  providers: [{ provide: FenceMemory, useValue: fences }], // one memory for all instances
})
export class ShippingModule implements OnApplicationShutdown {
  onApplicationShutdown(): void {
    redis.disconnect();
  }
}
