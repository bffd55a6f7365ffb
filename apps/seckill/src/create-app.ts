import { fileURLToPath } from 'node:url';
import { ConsoleLogger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import type { Config } from './config.js';
import { InstanceService } from './instances/instance.service.js';

/** Longer than a load balancer keeps a connection idle. One that the server ends first breaks the request that arrives just then. */
const KEEP_ALIVE_MS = 65_000;
const PAGE = fileURLToPath(new URL('./page', import.meta.url));

/** Starts the app; it listens when this resolves. Closes itself on SIGINT and SIGTERM. */
export async function createApp(config: Config): Promise<NestExpressApplication> {
  const module = AppModule.register(config);
  const colors = process.stdout.isTTY && !process.env['NO_COLOR'];
  const logger = new ConsoleLogger({ logLevels: ['error', 'warn'], colors });
  const app = await NestFactory.create<NestExpressApplication>(module, { logger });
  app.enableShutdownHooks();
  app.getHttpServer().keepAliveTimeout = KEEP_ALIVE_MS;
  app.useStaticAssets(PAGE);
  try {
    await app.listen(config.port, config.host);
  } catch (error) {
    // Its database and its timers would keep a process alive that serves no requests.
    await app.close();
    throw error;
  }
  await app.get(InstanceService).announce(await app.getUrl());
  return app;
}
