import { request as httpRequest } from 'node:http';
import { readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import {
  type CanActivate,
  type DynamicModule,
  type ExecutionContext,
  Inject,
  Injectable,
  Module,
  Scope,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockConfigurationError, type LockService } from 'nestjs-distributed-lock';
import { LockAdminModule, type LockAdminOptions } from 'nestjs-distributed-lock/admin';
import { until } from '#until';
import { ADAPTERS, OPERATOR, OperatorGuard, startAdminApp } from './support/admin-app.js';
import { ServiceInternals } from '../../libs/distributed-lock/src/lock/events/service-internals.js';

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

  it.each([Scope.DEFAULT, Scope.REQUEST])(
    'may have its canActivate as a field, in the scope %s',
    async (scope) => {
      @Injectable({ scope })
      class FieldGuard implements CanActivate {
        readonly canActivate = (context: ExecutionContext) => new OperatorGuard().canActivate(context);
      }
      const { ask: askAs } = await startAdminApp({ admin: { guard: FieldGuard } });
      expect((await askAs('/locks/api/about')).status).toBe(200);
      expect((await askAs('/locks/api/about', { headers: {} })).status).toBe(403);
    },
  );

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

interface Told {
  readonly type: string;
  readonly key?: string;
  readonly message?: string;
  readonly count?: number;
}

/** An open stream of events, with what has come so far. */
class Watcher {
  readonly told: Told[] = [];
  isOver = false;
  private readonly leaving = new AbortController();

  static async of(url: string): Promise<Watcher> {
    const watcher = new Watcher();
    const { signal } = watcher.leaving;
    const response = await fetch(`${url}/locks/api/events`, { headers: OPERATOR, signal });
    if (response.status !== 200) throw new Error(`The stream was answered ${response.status}.`);
    void watcher.read(response.body!.pipeThrough(new TextDecoderStream()));
    return watcher;
  }

  leave(): void {
    this.leaving.abort();
  }

  private async read(chunks: ReadableStream<string>): Promise<void> {
    let text = '';
    try {
      for await (const chunk of chunks) {
        text += chunk;
        const messages = text.split('\n\n');
        text = messages.pop() ?? '';
        for (const message of messages) {
          if (message.startsWith('data: ')) this.told.push(JSON.parse(message.slice(6)) as Told);
        }
      }
    } catch {
      // Left.
    }
    this.isOver = true;
  }
}

/** How many listen to the events of a service. */
function listenersOf(locks: LockService): number {
  const { events } = locks as unknown as { events: { listeners: { observers: unknown[] } } };
  return events.listeners.observers.length;
}

async function contend(locks: LockService, key: string): Promise<void> {
  const lock = await locks.acquire(key);
  await expect(locks.acquire(key, { waitMs: 1 })).rejects.toThrow('Could not acquire');
  await lock.release();
}

describe.each(ADAPTERS)('the events on %s', (adapter) => {
  it('tell of contention and of calls that end without their lock, and not of each call', async () => {
    const { locks, url } = await startAdminApp({ adapter });
    const watcher = await Watcher.of(url);
    await contend(locks, 'goods:42');
    await until(() => watcher.told.length >= 2);
    expect(watcher.told).toEqual([
      expect.objectContaining({ type: 'contended', key: 'goods:42', at: expect.any(String) }),
      expect.objectContaining({ type: 'abandoned', message: expect.stringContaining('held by') }),
    ]);
  });

  it('end with the client, and nothing listens any more', async () => {
    const { locks, url } = await startAdminApp({ adapter });
    const before = listenersOf(locks);
    const watchers = await Promise.all([Watcher.of(url), Watcher.of(url)]);
    expect(listenersOf(locks)).toBe(before + 2);
    for (const watcher of watchers) watcher.leave();
    await until(() => listenersOf(locks) === before);
    expect(listenersOf(locks)).toBe(before);
  });

  it('end with the application, which closes without waiting for them', async () => {
    const { app, url } = await startAdminApp({ adapter });
    const watcher = await Watcher.of(url);
    await app.close();
    await until(() => watcher.isOver);
    const server = app.getHttpServer() as { listening: boolean };
    expect([watcher.isOver, server.listening]).toEqual([true, false]);
  });

  it('are bounded for a client that reads slowly: the rest is counted', async () => {
    const { locks, url } = await startAdminApp({ adapter });
    const watcher = await Watcher.of(url);
    for (let i = 0; i < 2000; i++) ServiceInternals.of(locks).events.warn(`warning ${i}`);
    await until(() => watcher.told.some(({ type }) => type === 'missed'));
    expect(watcher.told.at(-1)).toEqual({ type: 'missed', count: 1500 });
    expect(watcher.told).toHaveLength(501);
  });

  it('have no body for HEAD, and leave nothing open', async () => {
    const { locks, ask } = await startAdminApp({ adapter });
    const before = listenersOf(locks);
    const answer = await ask('/locks/api/events', { method: 'HEAD' });
    expect([answer.status, await answer.text()]).toEqual([200, '']);
    expect(listenersOf(locks)).toBe(before);
  });
});

const ROOT = new URL('../../', import.meta.url);
const embedding = (await import(new URL('tools/embed-admin-page.mjs', ROOT).href)) as {
  embedAdminPage(): string;
};

describe('the page for operators', () => {
  it('is embedded as it is written: run npm run generate after a change', () => {
    const embedded = readFileSync(new URL('libs/distributed-lock/src/admin/page.generated.ts', ROOT), 'utf8');
    expect(embedded).toBe(embedding.embedAdminPage());
  });

  it.each(ADAPTERS)(
    'is one file that needs nothing from elsewhere and runs no other script, on %s',
    async (adapter) => {
      const { ask } = await startAdminApp({ adapter });
      const answer = await ask('/locks');
      const html = await answer.text();
      expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(answer.headers.get('x-frame-options')).toBe('DENY');
      const policy = answer.headers.get('content-security-policy')!;
      expect(policy).not.toContain('unsafe');
      for (const tag of ['script', 'style']) {
        const [, text = ''] = new RegExp(`<${tag}[^>]*>([^]*?)</${tag}>`).exec(html)!;
        expect(text.length).toBeGreaterThan(1000);
        expect(policy).toContain(`${tag}-src 'sha256-${createHash('sha256').update(text).digest('base64')}'`);
      }
      expect(html).not.toMatch(/https?:|\/\/[a-z]|\son[a-z]+=|javascript:|src=/i);
      expect(html).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/);
    },
  );

  it.each(['/locks/', '/locks?x=1'])('is the same at %s', async (path) => {
    const { ask } = await startAdminApp();
    expect(await (await ask(path)).text()).toContain('<dialog');
  });
});
