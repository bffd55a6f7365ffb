import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import type { Config } from './config.js';
import { serveDocs } from './docs.js';
import { InstanceService } from './instances/instance.service.js';

const PAGE = fileURLToPath(new URL('./page', import.meta.url));

/** Starts the app; it listens when this resolves. Closes itself on SIGINT and SIGTERM. */
export async function createApp(config: Config): Promise<NestExpressApplication> {
  const module = AppModule.register(config);
  const app = await NestFactory.create<NestExpressApplication>(module, { logger: ['error', 'warn'] });
  app.enableShutdownHooks();
  app.useStaticAssets(PAGE);
  serveDocs(app);
  await app.listen(config.port, config.host);
  await app.get(InstanceService).announce(await app.getUrl());
  return app;
}
