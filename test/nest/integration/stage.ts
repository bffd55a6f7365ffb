import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';

export const ADAPTERS = ['express', 'fastify'] as const;

/** Where handlers stand still until a test lets them go on, and where all leave their traces. */
export class Stage {
  readonly log: string[] = [];
  private readonly waiting = new Map<string, () => void>();

  note(what: string): void {
    this.log.push(what);
  }

  /** Waits at a point until `go(point)`. */
  async reach(point: string): Promise<void> {
    this.note(`${point} reached`);
    await new Promise<void>((resolve) => this.waiting.set(point, resolve));
    this.waiting.delete(point);
    this.note(`${point} left`);
  }

  isAt(point: string): boolean {
    return this.waiting.has(point);
  }

  go(point: string): void {
    const resolve = this.waiting.get(point);
    if (!resolve) throw new Error(`Nobody waits at "${point}".`);
    resolve();
  }
}

export interface StartedApp {
  readonly app: INestApplication;
  readonly stage: Stage;
  readonly locks: LockService;
  readonly fetch: (path: string, init?: RequestInit) => Promise<Response>;
}

/** A real application on a free port; locks live in memory unless the metadata imports another registration. */
export async function startApp(
  adapter: (typeof ADAPTERS)[number],
  metadata: ModuleMetadata,
  prepare: (app: INestApplication) => void = () => undefined,
): Promise<StartedApp> {
  const module = await Test.createTestingModule({
    ...metadata,
    imports: metadata.imports ?? [DistributedLockModule.forRoot({ shutdownGraceMs: 2_000 })],
    providers: [Stage, ...(metadata.providers ?? [])],
  }).compile();
  const app = module.createNestApplication<INestApplication>(
    adapter === 'express' ? new ExpressAdapter() : new FastifyAdapter(),
    { logger: ['fatal'], forceCloseConnections: true },
  );
  prepare(app);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return {
    app,
    stage: app.get(Stage),
    locks: app.get(LockService),
    fetch: (path, init) => fetch(`${url}${path}`, init),
  };
}
