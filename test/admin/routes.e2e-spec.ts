import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  BadRequestException,
  VersioningType,
  type CallHandler,
  type INestApplication,
} from '@nestjs/common';
import { map } from 'rxjs';
import {
  DistributedLockModule,
  getLockServiceToken,
  type LockEvent,
  type LockService,
} from 'nestjs-distributed-lock';
import { LockAdminModule } from 'nestjs-distributed-lock/admin';
import { withoutList, withUnreadable } from './support/odd-lists.js';
import { ADAPTERS, OperatorGuard, releaseOf, startAdminApp } from './support/admin-app.js';

interface Holder {
  readonly owner: string;
  readonly application?: string;
  readonly site?: string;
  readonly heldMs?: number;
  readonly since?: string;
}
interface LockView {
  readonly key: string;
  readonly mode: string;
  readonly holders: Holder[];
  readonly waiting: string[];
  readonly remainingMs: number | null;
  readonly fencingToken: number;
}
interface Page {
  readonly entries: LockView[];
  readonly cursor?: string;
}
interface Refused {
  readonly error: { status: number; code?: string; message: string };
}

@Controller()
class ShopController {
  @Get('shop')
  shop(): string {
    return 'open';
  }
}

/** What applications set up for all of their routes. */
function setUp(app: INestApplication): void {
  app.setGlobalPrefix('backend');
  app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
  app.useGlobalPipes({
    transform(): never {
      throw new BadRequestException('No class says what this is.');
    },
  });
  app.useGlobalInterceptors({
    intercept: (_: unknown, next: CallHandler) => next.handle().pipe(map((data: unknown) => ({ data }))),
  });
}

describe.each(ADAPTERS)('the JSON API on %s', (adapter) => {
  it('lists keys with their holders, by name, and how many wait', async () => {
    const { locks, askJson } = await startAdminApp({ adapter });
    const lock = await locks.acquire('goods:42', { site: 'nightly import' });
    await using _ = await locks.acquire('other:1');
    const { entries, cursor } = await askJson<Page>('/locks/api/locks?prefix=goods:');
    expect(cursor).toBeUndefined();
    expect(entries).toEqual([
      {
        key: 'goods:42',
        mode: 'exclusive',
        holders: [expect.objectContaining({ application: 'shop', site: 'nightly import' })],
        waiting: [],
        remainingMs: expect.any(Number),
        fencingToken: lock.fencingToken,
      },
    ]);
    const [{ heldMs, since }] = entries[0]!.holders as [Holder];
    expect(heldMs).toBeGreaterThanOrEqual(0);
    expect(new Date(since!).getTime()).toBeLessThanOrEqual(Date.now());
    await lock.release();
  });

  it('goes through the keys by pages', async () => {
    const { locks, askJson } = await startAdminApp({ adapter });
    const keys = ['a', 'b', 'c', 'd', 'e'];
    const held = await locks.acquire(keys);
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const query = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const page = await askJson<Page>(`/locks/api/locks?limit=2${query}`);
      expect(page.entries.length).toBeLessThanOrEqual(2);
      found.push(...page.entries.map(({ key }) => key));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(found.sort()).toEqual(keys);
    await held.release();
  });

  it('inspects keys as they are written', async () => {
    const { locks, ask, askJson } = await startAdminApp({ adapter });
    for (const key of ['goods:42', 'a/b', '../x', 'q?x=1&y', 'ünï 💥', '<script>', '%2F', '"\\']) {
      const path = `/locks/api/lock?key=${encodeURIComponent(key)}`;
      expect([key, (await ask(path)).status]).toEqual([key, 404]);
      await using _ = await locks.acquire(key);
      expect(await askJson<LockView>(path)).toMatchObject({ key, mode: 'exclusive' });
    }
  });

  it('refuses a request without a key, and a limit that no store knows, with what to send', async () => {
    const { ask, askJson } = await startAdminApp({ adapter });
    expect((await ask('/locks/api/lock')).status).toBe(400);
    const { error } = await askJson<Refused>('/locks/api/locks?limit=0');
    expect(error).toMatchObject({ status: 400, message: expect.stringMatching(/from 1 to 1000/) });
  });

  it('answers 403 to a release, unless the application allows it', async () => {
    const { locks, ask } = await startAdminApp({ adapter });
    const lock = await locks.acquire('goods:42');
    expect((await ask('/locks/api/release', releaseOf('goods:42'))).status).toBe(403);
    expect(await lock.release()).toBe('released');
  });

  it('releases by force, where the application allows it: the holder is told', async () => {
    const { locks, askJson } = await startAdminApp({ adapter, admin: { canRelease: true } });
    const forced: LockEvent[] = [];
    locks.events$.subscribe((event) => event.type === 'forced' && forced.push(event));
    const lock = await locks.acquire('goods:42');
    const release = () => askJson('/locks/api/release', releaseOf('goods:42'));
    expect(await release()).toEqual({ key: 'goods:42', answer: 'released' });
    expect(await lock.release()).toBe('lost');
    expect(lock.signal.aborted).toBe(true);
    expect(await release()).toEqual({ key: 'goods:42', answer: 'not held' });
    expect(forced).toMatchObject([{ key: 'goods:42', by: 'an operator, over HTTP' }]);
  });

  it('takes the lock from the holder that was shown, and from nobody who got it since', async () => {
    const { locks, askJson } = await startAdminApp({ adapter, admin: { canRelease: true } });
    const shown = await locks.acquire('goods:42');
    const { holders } = await askJson<LockView>('/locks/api/lock?key=goods:42');
    const release = (owner: unknown) => askJson('/locks/api/release', releaseOf('goods:42', {}, { owner }));
    const [{ owner }] = holders as [Holder];
    await shown.release();
    expect(await release(owner)).toEqual({ key: 'goods:42', answer: 'not held' });
    const next = await locks.acquire('goods:42');
    expect(await release(owner)).toEqual({ key: 'goods:42', answer: 'held by another' });
    expect(await release([owner, 'somebody'])).toMatchObject({ answer: 'held by another' });
    expect(next.signal.aborted).toBe(false);
    const [now] = (await askJson<LockView>('/locks/api/lock?key=goods:42')).holders as [Holder];
    expect(await release([owner, now.owner])).toEqual({ key: 'goods:42', answer: 'released' });
    expect(await next.release()).toBe('lost');
  });

  it.each([
    ['an owner that is none', { owner: null }],
    ['a number as owner', { owner: 42 }],
    ['a list with an empty owner', { owner: [''] }],
    ['a misspelt owner, which would free everybody', { owners: ['a:1'] }],
    ['a name in place of the actor', { by: 'mallory' }],
  ])('refuses to release with %s', async (_, more) => {
    const { locks, ask } = await startAdminApp({ adapter, admin: { canRelease: true } });
    const lock = await locks.acquire('goods:42');
    expect((await ask('/locks/api/release', releaseOf('goods:42', {}, more))).status).toBe(400);
    expect(await lock.release()).toBe('released');
  });

  it('tells by the actor of the request who has released by force, and releases nothing without one', async () => {
    const actor = async ({ headers }: { headers: Record<string, string> }) => {
      if (headers['x-session'] === 'broken') throw new Error('no session');
      return headers['x-session'];
    };
    const { locks, ask, askJson } = await startAdminApp({
      adapter,
      admin: { canRelease: true, actor },
    });
    const lock = await locks.acquire('goods:42');
    const broken = await ask('/locks/api/release', releaseOf('goods:42', { 'x-session': 'broken' }));
    expect([broken.status, lock.signal.aborted]).toEqual([500, false]);
    const forced: LockEvent[] = [];
    locks.events$.subscribe((event) => event.type === 'forced' && forced.push(event));
    await askJson('/locks/api/release', releaseOf('goods:42', { 'x-session': 'ann@example.com' }));
    expect(forced).toMatchObject([{ key: 'goods:42', by: 'ann@example.com, over HTTP' }]);
    expect(await lock.release()).toBe('lost');
  });

  it.each([
    ['from another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['from another host of the same site', { 'sec-fetch-site': 'same-site' }, 403],
    ['from another host over plain HTTP', { origin: 'http://evil.example' }, 403],
    ['from another port over plain HTTP', { origin: 'http://127.0.0.1:1' }, 403],
    ['from a page without an origin', { origin: 'null' }, 403],
    ['sent by a form', { 'content-type': 'application/x-www-form-urlencoded' }, 415],
    ['sent as plain text, which a browser sends to any site', { 'content-type': 'text/plain' }, 415],
  ])('refuses a release %s', async (_, headers, status) => {
    const { locks, ask } = await startAdminApp({ adapter, admin: { canRelease: true } });
    const lock = await locks.acquire('goods:42');
    const answer = await ask('/locks/api/release', releaseOf('goods:42', headers as Record<string, string>));
    expect(answer.status).toBe(status);
    expect(await lock.release()).toBe('released');
  });

  it('takes a release from its own page over plain HTTP, and behind a proxy that changes the host', async () => {
    const { locks, url, ask } = await startAdminApp({ adapter, admin: { canRelease: true } });
    const proxied = { 'sec-fetch-site': 'same-origin', origin: 'https://ops.example' };
    for (const headers of [{ origin: url }, proxied]) {
      const lock = await locks.acquire('goods:42');
      expect((await ask('/locks/api/release', releaseOf('goods:42', headers))).status).toBe(200);
      expect(await lock.release()).toBe('lost');
    }
  });

  it('refuses to release what is no key', async () => {
    const { ask } = await startAdminApp({ adapter, admin: { canRelease: true } });
    for (const key of [undefined, '', 42, ['goods:42'], { a: 1 }]) {
      const { status } = await ask('/locks/api/release', releaseOf(key));
      expect([key, status]).toEqual([key, 400]);
    }
  });

  it('keeps its form under the prefix, versions, pipes and interceptors of an application', async () => {
    const { locks, ask, askJson } = await startAdminApp({
      adapter,
      admin: { canRelease: true },
      imports: [{ module: class Shop {}, controllers: [ShopController] }],
      prepare: setUp,
    });
    const lock = await locks.acquire('goods:42');
    expect(await (await ask('/backend/v1/shop')).text()).toContain('data');
    expect((await askJson<Page>('/backend/locks/api/locks')).entries).toHaveLength(1);
    const answer = await askJson('/backend/locks/api/release', releaseOf('goods:42'));
    expect(answer).toEqual({ key: 'goods:42', answer: 'released' });
    await lock.release();
  });

  it('says what a store says that cannot list, and shows what this process holds', async () => {
    const { locks, askJson } = await startAdminApp({ adapter, locks: { store: withoutList() } });
    await using _ = await locks.acquire('goods:42');
    const { error } = await askJson<Refused>('/locks/api/locks');
    expect(error).toMatchObject({ status: 501, code: 'LOCK_STORE' });
    expect(error.message).toMatch(/cannot list its keys/);
    expect(await askJson('/locks/api/held')).toMatchObject({ holds: [{ key: 'goods:42' }] });
  });

  it('lists the other keys beside one that the store cannot read, and says why', async () => {
    const newer = { key: 'newer', message: 'written in format 9' };
    const { locks, askJson } = await startAdminApp({ adapter, locks: { store: withUnreadable(newer) } });
    await using _ = await locks.acquire('goods:42');
    expect(await askJson('/locks/api/locks')).toMatchObject({
      entries: [{ key: 'goods:42' }],
      unreadable: [newer],
    });
  });

  it('may be cached by nobody', async () => {
    const { ask } = await startAdminApp({ adapter });
    const { headers } = await ask('/locks/api/about');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
  });
});

describe('several registrations', () => {
  it('have a page each, on its own path', async () => {
    const { app, locks, askJson } = await startAdminApp({
      imports: [
        DistributedLockModule.forRoot({ name: 'audit', logger: false }),
        LockAdminModule.forRoot({ guard: OperatorGuard, name: 'audit', path: 'audit/locks' }),
      ],
    });
    await using _ = await locks.acquire('goods:1');
    await using __ = await app.get<LockService>(getLockServiceToken('audit')).acquire('log:1');
    const keysAt = async (path: string) =>
      (await askJson<Page>(`${path}/api/locks`)).entries.map(({ key }) => key);
    expect([await keysAt('/locks'), await keysAt('/audit/locks')]).toEqual([['goods:1'], ['log:1']]);
    expect(await askJson('/audit/locks/api/about')).toMatchObject({ registration: 'audit' });
  });
});
