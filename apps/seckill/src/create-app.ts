import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import type { Config } from './config.js';

/** Starts the app; it listens when this resolves. Closes itself on SIGINT and SIGTERM. */
export async function createApp(config: Config): Promise<INestApplication> {
  const app = await NestFactory.create(AppModule.register(config), { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  await app.listen(config.port, config.host);
  return app;
}
