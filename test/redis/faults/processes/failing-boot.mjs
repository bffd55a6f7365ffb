// An application that uses a lock while it boots, and whose boot fails then. Nobody closes it, and nobody ends the process.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

const { url, when, ask, key } = JSON.parse(process.argv[2]);
const say = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);

const ASKS = {
  withLock: (locks) => locks.withLock(key, { waitMs: 100 }, () => say('held')),
  inspect: (locks) => locks.inspect(key),
  holdAtLeastMs: (locks) => locks.withLock(key, { holdAtLeastMs: 60_000 }, () => say('held')),
};
const use = (locks) => ASKS[ask](locks).catch(({ code }) => say('refused', { code }));
const fail = () => {
  throw new Error('no boot');
};

class Early {
  constructor(locks) {
    this.locks = locks;
  }
  async onModuleInit() {
    if (when === 'onModuleInit') await use(this.locks);
  }
  async onApplicationBootstrap() {
    if (when === 'onApplicationBootstrap') await use(this.locks);
    fail();
  }
}
const early = {
  provide: Early,
  useFactory: async (locks) => {
    if (when === 'factory') await use(locks).then(fail);
    return new Early(locks);
  },
  inject: [LockService],
};

class AppModule {}
Module({
  imports: [
    DistributedLockModule.forRoot({ store: redisStore(url, { commandTimeoutMs: 200 }), logger: false }),
  ],
  providers: [early],
})(AppModule);

try {
  await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
} catch (error) {
  say('failed', { message: error.message });
}
