// One instance of an application whose leader writes to Redis in each turn, fenced by the token of its term, and never looks
// whether the term is over. Says what happens to it, a line of JSON each.
import 'reflect-metadata';
import { setTimeout as pause } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { fencedRedis } from 'nestjs-distributed-lock/guard';
import { LeaderModule, OnDemoted, OnElected } from 'nestjs-distributed-lock/leader';
import { redisStore } from 'nestjs-distributed-lock/redis';

const { url, watchdogTimeoutMs } = JSON.parse(process.argv[2]);
const client = new Redis(url);
const written = fencedRedis(client);

function say(what, fencingToken) {
  const at = performance.timeOrigin + performance.now();
  process.stdout.write(`${JSON.stringify({ what, fencingToken, at })}\n`);
}

class Poller {
  elected(term) {
    say('elected', term.fencingToken);
    void this.write(term);
  }

  demoted(term) {
    say('demoted', term.fencingToken);
  }

  async write(term) {
    try {
      for (;;) {
        await written.set('written', term.fencingToken, term);
        await pause(5);
      }
    } catch (error) {
      if (error.code === 'LOCK_STALE_TOKEN' || error.name === 'StaleTokenError')
        say('refused', term.fencingToken);
    }
  }
}
const decorate = (decorator, method) =>
  decorator(Poller.prototype, method, Object.getOwnPropertyDescriptor(Poller.prototype, method));
decorate(OnElected('poller'), 'elected');
decorate(OnDemoted('poller'), 'demoted');

class AppModule {}
const locks = DistributedLockModule.forRoot({
  store: redisStore(url, { commandTimeoutMs: 300 }),
  watchdogTimeoutMs,
});
Module({ imports: [locks, LeaderModule.forFeature('poller')], providers: [Poller] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['warn', 'error'] });
app.enableShutdownHooks();
process.once('SIGTERM', () => client.disconnect());
say('standing');
