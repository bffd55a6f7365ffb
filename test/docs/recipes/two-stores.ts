import { Injectable, Module } from '@nestjs/common';
import { DistributedLockModule, InjectLockService, LockService, Locked } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

@Injectable()
export class Thumbnails {
  constructor(@InjectLockService('local') private readonly local: LockService) {}

  @Locked('picture:<id>') // the registration without a name
  async replace(id: string): Promise<string> {
    return this.shrink(id);
  }

  @Locked('cpu', { name: 'local', permits: 2 })
  async shrink(id: string): Promise<string> {
    return `${id} is smaller`;
  }

  async isIdle(): Promise<boolean> {
    return (await this.local.inspect('cpu')) === null;
  }
}

@Module({
  imports: [
    DistributedLockModule.forRoot({ store: redisStore(process.env['REDIS_URL'] ?? 'redis://localhost') }),
    DistributedLockModule.forRoot({ name: 'local' }), // in memory: a limit for each process
  ],
  providers: [Thumbnails],
})
export class AppModule {}
