import 'reflect-metadata';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Controller, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { decorateMethod } from './decorate.mjs';

/**
 * An application whose route works under one lock. When the lock is refused, Nest answers 500, as for each error of a handler.
 *
 * @param {{ redisUrl: string, contestant: string, workMs: number }} details the file of a contestant
 * @returns {Promise<{ url: string }>} where it listens
 */
export async function startHot({ redisUrl, contestant, workMs }) {
  const { open } = await import(pathToFileURL(contestant).href);
  const { run } = await open(redisUrl, {});
  class HotController {
    trigger() {
      return run('hot', () => pause(workMs, { done: true }));
    }
  }
  decorateMethod(HotController, 'trigger', [Post()], []);
  Controller('hot')(HotController);
  class HotModule {}
  Module({ controllers: [HotController] })(HotModule);
  const app = await NestFactory.create(HotModule, new FastifyAdapter(), { logger: false });
  await app.listen(0, '127.0.0.1');
  return { url: `${await app.getUrl()}/hot` };
}
