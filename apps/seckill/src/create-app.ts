import { fileURLToPath } from 'node:url';
import { ConsoleLogger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import { InstanceService } from './live/instance.service.js';
import type { Settings } from './settings.js';

const PAGE = fileURLToPath(new URL('./page', import.meta.url));

/** Starts the app; it listens when this resolves. */
export async function createApp(settings: Settings): Promise<NestExpressApplication> {
  const logger = new ConsoleLogger({ logLevels: ['error', 'warn'] });
  const options = { logger, abortOnError: false };
  const app = await NestFactory.create<NestExpressApplication>(AppModule.register(settings), options);
  // Without this a deploy ends the process with its locks held, and others wait until their leases expire.
  app.enableShutdownHooks();
  app.useStaticAssets(PAGE);
  try {
    await app.listen(settings.port, settings.host);
  } catch (error) {
    // Its database and its timers would keep a process alive that serves no requests.
    await app.close();
    throw error;
  }
  await app.get(InstanceService).announce(await app.getUrl());
  return app;
}
