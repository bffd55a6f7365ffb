import { afterEach } from '@jest/globals';
import { Injectable, type CanActivate, type ExecutionContext, type INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import {
  DistributedLockModule,
  LockService,
  type DistributedLockModuleOptions,
} from 'nestjs-distributed-lock';
import { LockAdminModule, type LockAdminOptions } from 'nestjs-distributed-lock/admin';

export const ADAPTERS = ['express', 'fastify'] as const;
/** What an operator sends, and nobody else. */
export const OPERATOR = { 'x-operator': 'ann' };

/** Lets in who sends `OPERATOR`. */
@Injectable()
export class OperatorGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    return request.headers['x-operator'] === OPERATOR['x-operator'];
  }
}

export interface AdminApp {
  readonly app: INestApplication;
  readonly locks: LockService;
  readonly url: string;
  /** As an operator, unless `init` has other headers. */
  readonly ask: (path: string, init?: RequestInit) => Promise<Response>;
  readonly askJson: <T = Record<string, unknown>>(path: string, init?: RequestInit) => Promise<T>;
}

export interface AdminAppOptions {
  readonly adapter?: (typeof ADAPTERS)[number];
  readonly locks?: DistributedLockModuleOptions;
  readonly admin?: Partial<LockAdminOptions>;
  readonly imports?: Parameters<typeof Test.createTestingModule>[0]['imports'];
  readonly prepare?: (app: INestApplication) => unknown;
}

const open: INestApplication[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((app) => app.close()));
});

/** A real application with the page, on a free port. It is closed after the test. */
export async function startAdminApp(options: AdminAppOptions = {}): Promise<AdminApp> {
  const { adapter = 'express', locks, admin, imports = [], prepare } = options;
  const module = await Test.createTestingModule({
    imports: [
      DistributedLockModule.forRoot({ application: 'shop', shutdownGraceMs: 0, logger: false, ...locks }),
      LockAdminModule.forRoot({ guard: OperatorGuard, ...admin }),
      ...imports,
    ],
  }).compile();
  const app = module.createNestApplication<INestApplication>(
    adapter === 'express' ? new ExpressAdapter() : new FastifyAdapter(),
    { logger: false },
  );
  prepare?.(app);
  open.push(app);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(url + path, { ...init, headers: init.headers ?? OPERATOR });
  return {
    app,
    locks: app.get(LockService),
    url,
    ask,
    askJson: async <T>(path: string, init?: RequestInit) => (await (await ask(path, init)).json()) as T,
  };
}

/** What a release by an operator sends. @param more in the body */
export function releaseOf(
  key: unknown,
  headers: Record<string, string> = {},
  more: object = {},
): RequestInit {
  const json = { 'content-type': 'application/json' };
  const body = JSON.stringify({ key, ...more });
  return { method: 'POST', headers: { ...OPERATOR, ...json, ...headers }, body };
}
