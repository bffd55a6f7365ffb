import { expect, it } from '@jest/globals';
import { LockStoreError, type LockService, type LockStoreFactory } from 'nestjs-distributed-lock';
import { until } from '#until';
import type { OwnServer } from '../../../tools/own-server/index.mjs';
import { eventsOf } from '../../support/events.js';
import { failureOf, openServiceOn } from '../../support/lock-services.js';

/** A server of one kind, as the cases below need it. */
export interface FaultStage {
  /** The name that errors give to it. */
  readonly product: string;
  readonly server: Pick<OwnServer, 'kill' | 'restart' | 'pause' | 'resume'>;
  /** A key that no other test uses. */
  readonly key: string;
  /** A service that has had a lock, as another process would have it. */
  readonly open: () => Promise<LockService>;
  /** Breaks the connections of all services. */
  readonly disconnect: () => unknown;
  /** The test's own client connects again after a restart. */
  readonly reconnect?: () => Promise<unknown>;
  /** Where no server listens. */
  readonly nowhere: LockStoreFactory;
}

/** What holds on each real server when it fails, or the way to it. Every message and its loss: test/simulation. */
export function describeFaults(stage: FaultStage): void {
  const works = async (service: LockService) => {
    await service.withLock(stage.key, { waitMs: 10_000 }, () => undefined);
  };

  it('keeps its locks when its connections break, and a waiter is granted', async () => {
    const [holder, other] = [await stage.open(), await stage.open()];
    const [lock, more] = [await holder.acquire(stage.key), await holder.acquire(`${stage.key}:more`)];
    const waiting = other.acquire(stage.key, { waitMs: 10_000 });
    await until(async () => (await holder.inspect(stage.key))?.pending.length === 1);
    await stage.disconnect();
    expect(await lock.release()).toBe('released');
    expect(await (await waiting).release()).toBe('released');
    await works(holder);
    expect(more.signal.aborted).toBe(false);
    expect(await more.release()).toBe('released');
  });

  it('keeps its locks when the server is killed and comes back within the lease', async () => {
    const [holder, other] = [await stage.open(), await stage.open()];
    const events = eventsOf(other);
    const isUp = () => events.flatMap((event) => (event.type === 'store' ? event.state.isUp : []));
    const lock = await holder.acquire(`${stage.key}:held`);
    await stage.server.kill();
    const failure = await failureOf(other.tryAcquire(stage.key));
    expect(failure).toBeInstanceOf(LockStoreError);
    expect(String(failure)).toMatch(
      new RegExp(`${stage.product} (at \\S+ could not be reached|did not answer)`),
    );
    await until(() => isUp().includes(false));
    await stage.server.restart();
    await stage.reconnect?.();
    await works(other);
    await until(() => isUp().at(-1) === true);
    expect(await other.tryAcquire(`${stage.key}:held`)).toBeNull();
    expect(lock.signal.aborted).toBe(false);
    expect(await lock.release()).toBe('released');
  });

  it('answers while the server is frozen that it does not know, and nothing stays behind when it is not', async () => {
    const service = await stage.open();
    // The service sends no request behind one that has no answer yet, and then knows that it was not executed.
    await (await service.acquire(stage.key, { waitMs: 10_000 })).release();
    await stage.server.pause();
    const failure = await failureOf(service.tryAcquire(stage.key));
    await stage.server.resume();
    expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'unknown' });
    await works(service);
    await until(async () => (await service.inspect(stage.key)) === null);
  });

  it('rejects at its end what was under way, also where there has never been a server', async () => {
    const service = openServiceOn(stage.nowhere);
    const asked = failureOf(service.acquire(stage.key, { waitMs: Infinity }));
    await service.close();
    expect(await asked).toBeInstanceOf(Error);
  });

  it('says what happened to a request: not sent without a server', async () => {
    expect(await failureOf(openServiceOn(stage.nowhere).tryAcquire(stage.key))).toMatchObject({
      reason: 'unreachable',
      message: expect.stringMatching(
        new RegExp(`^${stage.product} at \\S+ could not be reached: .*ECONNREFUSED`),
      ),
    });
  });
}
