import { Injectable, Module } from '@nestjs/common';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

/** What a ConfigService is elsewhere. */
@Injectable()
export class Settings {
  readonly redisUrl = process.env['REDIS_URL'] ?? 'redis://localhost:6379';
  readonly stage = process.env['STAGE'] ?? 'dev';
}

@Module({ providers: [Settings], exports: [Settings] })
export class SettingsModule {}

@Module({
  imports: [
    DistributedLockModule.forRootAsync({
      imports: [SettingsModule],
      inject: [Settings],
      useFactory: ({ redisUrl, stage }: Settings) => ({
        store: redisStore(redisUrl),
        keyPrefix: `shop:${stage}:`,
        waitMs: 3000,
      }),
    }),
  ],
})
export class AppModule {}
