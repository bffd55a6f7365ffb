// A process with one worker that never ends a job. Says on stdout which one it has begun.
import 'reflect-metadata';
import { BullModule, Processor, WorkerHost } from '@nestjs/bullmq';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { LockedJob } from 'nestjs-distributed-lock/bullmq';
import { redisStore } from 'nestjs-distributed-lock/redis';

const { url, prefix, keyPrefix } = JSON.parse(process.argv[2]);
const { hostname: host, port } = new URL(url);

class InvoiceWorker extends WorkerHost {
  async process(job) {
    process.stdout.write(`${job.id}\n`);
    await new Promise(() => {});
  }
}
const { prototype } = InvoiceWorker;
const process_ = Object.getOwnPropertyDescriptor(prototype, 'process');
LockedJob('customer:<0.data.customer>')(prototype, 'process', process_);
Object.defineProperty(prototype, 'process', process_);
Processor('invoices', { lockDuration: 1000, stalledInterval: 500 })(InvoiceWorker);

class AppModule {}
Module({
  imports: [
    DistributedLockModule.forRoot({
      store: redisStore(url, { commandTimeoutMs: 300 }),
      keyPrefix,
      watchdogTimeoutMs: 1000,
    }),
    BullModule.forRoot({ connection: { host, port: Number(port) }, prefix }),
    BullModule.registerQueue({ name: 'invoices' }),
  ],
  providers: [InvoiceWorker],
})(AppModule);

await NestFactory.createApplicationContext(AppModule, { logger: ['error'] });
