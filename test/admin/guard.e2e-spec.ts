import { request as httpRequest } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { Inject, Injectable, Module, Scope, type CanActivate, type DynamicModule } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockConfigurationError } from 'nestjs-distributed-lock';
import { LockAdminModule, type LockAdminOptions } from 'nestjs-distributed-lock/admin';
import { ADAPTERS, OPERATOR, OperatorGuard, startAdminApp } from './support/admin-app.js';

const SECRET = 'nobody may read this';
const ROUTES = ['', '/api/about', '/api/locks', '/api/lock?key=goods:42', '/api/held', '/api/events'];
const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE', 'PATCH'];

/** As it is written: `fetch` would tidy the path up. */
function ask(url: string, path: string, method: string): Promise<{ status: number; text: string }> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ hostname, port, path, method, agent: false }, (response) => {
      let text = JSON.stringify(response.headers);
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

/** Other ways to write a path, some of which a router takes for the same. */
function spellingsOf(path: string): string[] {
  const [before = '', query = ''] = path.split('?');
  const end = query && `?${query}`;
  return [
    `${before}/${end}`,
    `/${path}`,
    before.toUpperCase() + end,
    before.replace('locks', '%6cocks') + end,
    before.replaceAll('/', '%2f').replace('%2f', '/') + end,
    before.replace('/locks', '/x/../locks') + end,
    `${before};a=b${end}`,
    `${before}//${end}`,
  ];
}

describe.each(ADAPTERS)('without the guard on %s', (adapter) => {
  it.each(['', 'backend'])(
    'nobody gets in, on any route, by any method or spelling, prefix "%s"',
    async (prefix) => {
      const { locks, url } = await startAdminApp({
        adapter,
        admin: { canRelease: true },
        prepare: (app) => prefix !== '' && app.setGlobalPrefix(prefix),
      });
      const lock = await locks.acquire('goods:42', { site: SECRET });
      const base = prefix === '' ? '/locks' : `/${prefix}/locks`;
      let refused = 0;
      for (const route of [...ROUTES, '/api/release']) {
        // Each method on the path itself, and each spelling of it by the two that read and write.
        const tries = METHODS.map((method) => [base + route, method] as const).concat(
          spellingsOf(base + route).flatMap((path) => [[path, 'GET'] as const, [path, 'POST'] as const]),
        );
        const answers = await Promise.all(
          tries.map(async ([path, method]) => ({ path, method, ...(await ask(url, path, method)) })),
        );
        const isIn = ({ method, status, text }: (typeof answers)[number]) =>
          text.includes(SECRET) || text.includes('<dialog') || (method !== 'OPTIONS' && status < 400);
        expect(answers.filter(isIn)).toEqual([]);
        refused += answers.filter(({ status }) => status === 403).length;
      }
      expect(refused).toBeGreaterThan(10);
      expect(await lock.release()).toBe('released');
    },
  );

  it('an operator gets in', async () => {
    const { ask: askAs } = await startAdminApp({ adapter });
    for (const route of ROUTES.filter((it) => !/lock\?|events/.test(it))) {
      expect([route, (await askAs(`/locks${route}`)).status]).toEqual([route, 200]);
    }
  });
});

@Injectable()
class Operators {
  readonly names = ['ann'];
}

@Module({ providers: [Operators], exports: [Operators] })
class OperatorsModule {}

@Injectable({ scope: Scope.REQUEST })
class InjectedGuard implements CanActivate {
  constructor(
    @Inject(Operators) private readonly operators: Operators,
    @Inject(REQUEST) private readonly request: { headers: Record<string, string> },
  ) {}

  canActivate(): boolean {
    return this.operators.names.includes(this.request.headers['x-operator'] ?? '');
  }
}

describe('a guard', () => {
  it('may inject what a module of the application offers, and the request', async () => {
    const { ask: askAs } = await startAdminApp({
      admin: { guard: InjectedGuard, imports: [OperatorsModule] },
    });
    expect((await askAs('/locks/api/about')).status).toBe(200);
    expect((await askAs('/locks/api/about', { headers: {} })).status).toBe(403);
  });

  it('may be an object', async () => {
    const { ask: askAs } = await startAdminApp({ admin: { guard: new OperatorGuard() } });
    expect((await askAs('/locks/api/about', { headers: OPERATOR })).status).toBe(200);
    expect((await askAs('/locks/api/about', { headers: {} })).status).toBe(403);
  });
});

async function refusalOf(options: object, ...more: DynamicModule[]): Promise<string> {
  const boot = async (): Promise<never> => {
    const imports = [
      DistributedLockModule.forRoot({ logger: false }),
      LockAdminModule.forRoot(options as LockAdminOptions),
      ...more,
    ];
    const app = await Test.createTestingModule({ imports }).compile();
    await app.init();
    await app.close();
    throw new Error('It booted.');
  };
  const error = await boot().catch((it: unknown) => it as Error);
  expect(error).toBeInstanceOf(LockConfigurationError);
  return error.message;
}

describe('the boot is refused with one sentence that says what to write', () => {
  it.each([undefined, null, false, true, {}, () => true, class Shop {}, 'OpsGuard'])(
    'for the guard %s, which is none',
    async (guard) => {
      const message = await refusalOf({ guard });
      expect(message).toMatch(/^LockAdminModule.forRoot needs a guard, because .*guard: OpsGuard\.$/);
    },
  );

  it.each([
    [{ path: '' }, /path must be a text/],
    [{ path: '/' }, /path must be a text/],
    [{ path: 42 }, /path must be a text/],
    [{ canRelease: 'yes' }, /canRelease must be true or false; it is a string/],
    [{ name: '' }, /name must be the name of a registration/],
    [{ gaurd: false }, /no option "gaurd"; did you mean guard\?/],
    [{ name: 'audit' }, /no DistributedLockModule has the name "audit"\. Import .*name: 'audit'/],
  ])('for the options %j', async (options, message) => {
    expect(await refusalOf({ guard: OperatorGuard, ...options })).toMatch(message);
  });

  it('for two on one path', async () => {
    const second = LockAdminModule.forRoot({ guard: OperatorGuard, path: '/locks/' });
    expect(await refusalOf({ guard: OperatorGuard }, second)).toMatch(/called twice for the path "locks"/);
  });
});
