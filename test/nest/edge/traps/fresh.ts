import { afterEach } from '@jest/globals';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { DistributedLockModule, type DistributedLockModuleOptions } from 'nestjs-distributed-lock';
import { startApp, type StartedApp } from '../../integration/stage.js';
import { outcomesOf } from '../../../support/events.js';

/** An application that one trap has for itself. */
export interface FreshApp extends StartedApp {
  /** What has happened to locks, as `acquired goods:1`. */
  readonly events: readonly string[];
  readonly isFree: (key: string) => Promise<boolean>;
}

interface Metadata extends ModuleMetadata {
  readonly options?: DistributedLockModuleOptions;
  readonly prepare?: (app: INestApplication) => void;
}

const open: INestApplication[] = [];

/** Boots a small application on a port of its own; it is closed when the test has ended. */
export async function fresh({ options = {}, prepare, ...metadata }: Metadata): Promise<FreshApp> {
  const locking = DistributedLockModule.forRoot({ shutdownGraceMs: 500, ...options });
  const imports = [locking, ...(metadata.imports ?? [])];
  const started = await startApp('express', { ...metadata, imports }, prepare);
  open.push(started.app);
  const { locks } = started;
  const isFree = async (key: string): Promise<boolean> => (await locks.inspect(key)) === null;
  return { ...started, events: outcomesOf(locks), isFree };
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((app) => app.close()));
});
