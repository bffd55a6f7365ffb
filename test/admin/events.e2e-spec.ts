import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { until } from '#until';
import { warn } from '../../libs/distributed-lock/src/lock/events/service-internals.js';
import { ADAPTERS, OPERATOR, startAdminApp } from './support/admin-app.js';

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
  return (locks as unknown as { events: { observers: unknown[] } }).events.observers.length;
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
    for (let i = 0; i < 2000; i++) warn(locks, `warning ${i}`);
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
