import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { LockService, memoryStore, type LockEvent } from 'nestjs-distributed-lock';
import type { Term } from 'nestjs-distributed-lock/leader';
import { until } from '#until';
import { leaderEventsOf, Poller, startInstance } from './support/instances.js';

const errorsOf = (events: readonly LockEvent[]) => events.filter(({ type }) => type === 'error');
const warningsOf = (events: readonly LockEvent[]) =>
  events.flatMap((event) => (event.type === 'warning' ? event.message : []));

describe('a term', () => {
  it('is one instance at a time, in the order of the queue, and its tokens grow', async () => {
    const store = memoryStore();
    const first = await startInstance({ store });
    await until(() => first.leader.isLeader);
    const next = await startInstance({ store });
    const last = await startInstance({ store });
    await first.leader.resign();
    await until(() => next.leader.isLeader);
    expect([first.leader.isLeader, last.leader.isLeader]).toEqual([false, false]);
    await next.app.close();
    await until(() => last.leader.isLeader);
    const tokens = [first, next, last].map(({ poller }) => poller.terms[0]?.fencingToken as number);
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    expect(new Set(tokens).size).toBe(3);
    expect(leaderEventsOf(first)).toEqual(['candidate', 'elected', 'demoted: resigned']);
    expect(leaderEventsOf(next)).toEqual(['candidate', 'elected', 'demoted: shutdown']);
  });

  it('waits for its election however few may wait by the defaults of the registration', async () => {
    const options = { store: memoryStore(), defaults: { maxWaiting: 0 } };
    const first = await startInstance(options);
    await until(() => first.leader.isLeader);
    const next = await startInstance(options);
    await until(async () => (await next.locks.inspect('leader:poller'))?.pending.length === 1);
    await first.app.close();
    await until(() => next.leader.isLeader);
    expect(errorsOf(next.events)).toEqual([]);
  });

  it('has the name, the key, the token of its lock and the time of its election', async () => {
    const { leader, poller, locks, events } = await startInstance({});
    await until(() => poller.terms.length === 1);
    const [term] = poller.terms as [Term];
    expect(term).toBe(leader.term);
    expect([term.name, term.key]).toEqual(['poller', 'leader:poller']);
    const { fencingToken } = (await locks.inspect('leader:poller'))!;
    expect(term.fencingToken).toBe(fencingToken);
    expect(Math.abs(Date.now() - term.since.getTime())).toBeLessThan(60_000);
    expect(events).toContainEqual({
      type: 'elected',
      key: term.key,
      name: 'poller',
      fencingToken,
      since: term.since,
    });
    expect(JSON.stringify(leader)).toBe('{"name":"poller","key":"leader:poller","isLeader":true}');
  });

  it('that is lost is told at once, and this instance stands again', async () => {
    const { leader, poller, locks, events } = await startInstance({});
    await until(() => leader.isLeader);
    const [term] = poller.terms as [Term];
    const told: (number | undefined)[] = [];
    leader.leader$.subscribe((it) => told.push(it?.fencingToken));
    await locks.forceRelease('leader:poller');
    await until(() => poller.terms.length === 2);
    expect(term.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
    expect(poller.ended).toEqual([term]);
    const next = poller.terms[1]!.fencingToken;
    expect(next).toBeGreaterThan(term.fencingToken);
    expect(told).toEqual([term.fencingToken, undefined, next]);
    expect(errorsOf(events)).toEqual([]);
  });

  it('of a resigned leader that nobody follows begins anew, under a larger token', async () => {
    const { leader, poller } = await startInstance({});
    await until(() => leader.isLeader);
    await leader.resign();
    await until(() => poller.terms.length === 2);
    expect(poller.ended.map(({ signal }) => (signal.reason as Error).message)).toEqual([
      '"leader:poller" is not held any more: this instance has resigned as the leader "poller".',
    ]);
    expect(poller.terms[1]!.fencingToken).toBeGreaterThan(poller.terms[0]!.fencingToken);
    await leader.resign();
    await leader.resign();
  });

  it('of a leader that a listener of its election resigns is over before its work begins', async () => {
    const { leader, poller, locks } = await startInstance({});
    await until(() => poller.terms.length === 1);
    let elections = 0;
    locks.events$.subscribe(({ type }) => {
      if (type === 'elected' && ++elections === 1) void leader.resign();
    });
    await leader.resign();
    await until(() => poller.terms.length === 2);
    expect([elections, poller.ended.length]).toEqual([2, 2]);
  });
});

/** Works in each term until it is told to end, whatever the signal says. */
@Injectable()
class Working extends Poller {
  readonly log: string[] = [];
  readonly finish: (() => void)[] = [];

  override async work(): Promise<void> {
    this.log.push('begin');
    await new Promise<void>((resolve) => this.finish.push(resolve));
    this.log.push('end');
  }

  override async end(): Promise<void> {
    this.log.push('demoted');
    await Promise.resolve();
  }
}

describe('the work of a term', () => {
  it('ends before the next leader begins, when this one steps down', async () => {
    const store = memoryStore();
    const first = await startInstance({ store, poller: Working });
    const [old, next] = [first, await startInstance({ store })];
    const working = old.poller as Working;
    await until(() => working.log.length === 1);
    const closing = old.app.close();
    await until(() => working.log.includes('demoted'));
    expect(working.terms[0]!.signal.aborted).toBe(true);
    expect(old.leader.isLeader).toBe(false);
    expect(next.leader.isLeader).toBe(false);
    working.finish[0]!();
    await closing;
    await until(() => next.leader.isLeader);
    expect(working.log).toEqual(['begin', 'demoted', 'end']);
  });

  it('that never ends delays the next leader by the grace, is told, and keeps this instance from leading again', async () => {
    const store = memoryStore();
    const first = await startInstance({ store, poller: Working, shutdownGraceMs: 50 });
    const working = first.poller as Working;
    await until(() => working.log.length === 1);
    const next = await startInstance({ store });
    await first.leader.resign();
    await until(() => next.leader.isLeader);
    // Warned of once. Classes of other suites that run together with this one are told of, too.
    expect(warningsOf(first.events).filter((text) => !text.startsWith('@'))).toEqual([
      'Work of the leader "poller" still runs 50 ms after its term has ended (resigned). The next leader may begin now. This instance is not elected again before that work has ended. End it by term.signal.',
    ]);
    await next.app.close();
    expect(await first.locks.inspect('leader:poller')).toBeNull();
    working.finish[0]!();
    await until(() => first.leader.isLeader);
    expect(working.log).toEqual(['begin', 'demoted', 'end', 'begin']);
  });

  it('of a lost term ends before the next term of the same instance begins', async () => {
    const store = memoryStore();
    const { locks, poller, leader } = await startInstance({ store, poller: Working, shutdownGraceMs: 0 });
    const working = poller as Working;
    await until(() => working.log.length === 1);
    await locks.forceRelease('leader:poller');
    await until(() => working.log.length === 2);
    const another = new LockService({ store });
    await another.withLock('leader:poller', async () => {
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      expect((await another.inspect('leader:poller'))?.pending).toEqual([]);
    });
    await another.close();
    expect([leader.isLeader, working.log]).toEqual([false, ['begin', 'demoted']]);
    working.finish[0]!();
    await until(() => working.log.length === 4);
    expect(working.log).toEqual(['begin', 'demoted', 'end', 'begin']);
  });

  it('may resign without waiting for itself', async () => {
    @Injectable()
    class Resigning extends Poller {
      leader: { resign(): Promise<void> } | undefined;
      readonly log: string[] = [];

      override async work(term: Term): Promise<void> {
        if (this.terms.length > 1) return;
        await until(() => this.leader !== undefined);
        await this.leader?.resign();
        this.log.push(`aborted: ${term.signal.aborted}`);
      }
    }
    const { poller, leader } = await startInstance({ poller: Resigning });
    (poller as Resigning).leader = leader;
    await until(() => poller.terms.length === 2);
    expect((poller as Resigning).log).toEqual(['aborted: true']);
  });

  it('shares the lock of the leader: a nested call for its key neither waits nor releases', async () => {
    @Injectable()
    class Nesting extends Poller {
      current: unknown;
      run: ((key: string) => Promise<unknown>) | undefined;

      override async work(term: Term): Promise<void> {
        await until(() => this.run !== undefined);
        this.current = await this.run?.(term.key);
      }
    }
    const { poller, locks, leader } = await startInstance({ poller: Nesting });
    (poller as Nesting).run = (key) => locks.withLock(key, (lock) => lock.fencingToken);
    await until(() => (poller as Nesting).current !== undefined);
    expect((poller as Nesting).current).toBe(leader.term?.fencingToken);
  });
});

describe('an @OnElected method that fails', () => {
  it('is reported, makes this instance step down, and another one leads', async () => {
    const boom = new Error('boom');
    @Injectable()
    class Failing extends Poller {
      override work(): unknown {
        throw boom;
      }
    }
    const store = memoryStore();
    const failing = await startInstance({ store, poller: Failing });
    const next = await startInstance({ store });
    await until(() => next.leader.isLeader);
    expect(errorsOf(failing.events)).toEqual([
      { type: 'error', key: 'leader:poller', during: '@OnElected', error: boom },
    ]);
    expect(leaderEventsOf(failing)).toEqual(['candidate', 'elected', 'demoted: failed']);
    const [term] = failing.poller.terms as [Term];
    expect(term.signal.reason).toMatchObject({ code: 'LOCK_NOT_HELD', cause: boom });
    expect(failing.poller.ended).toEqual([term]);
  });

  it('because its signal has aborted has not failed', async () => {
    @Injectable()
    class Waiting extends Poller {
      override async work(term: Term): Promise<void> {
        if (this.terms.length === 1) await setTimeout(60_000, undefined, { signal: term.signal });
        if (this.terms.length === 2)
          await new Promise((_, reject) =>
            term.signal.addEventListener('abort', () => reject(term.signal.reason)),
          );
      }
    }
    const { poller, locks, leader, events } = await startInstance({ poller: Waiting });
    await until(() => poller.terms.length === 1);
    await leader.resign();
    await until(() => poller.terms.length === 2);
    await locks.forceRelease('leader:poller');
    await until(() => poller.terms.length === 3);
    expect(errorsOf(events)).toEqual([]);
  });
});

describe('an @OnDemoted method that fails', () => {
  it('is reported, and the lock is given back', async () => {
    const boom = new Error('boom');
    @Injectable()
    class Failing extends Poller {
      override end(): unknown {
        throw boom;
      }
    }
    const { leader, poller, events } = await startInstance({ poller: Failing });
    await until(() => leader.isLeader);
    await leader.resign();
    await until(() => poller.terms.length === 2);
    expect(errorsOf(events)).toEqual([
      { type: 'error', key: 'leader:poller', during: '@OnDemoted', error: boom },
    ]);
  });
});

describe('a listener of leader$', () => {
  it('is told the present term at once, and the end of the application; one that throws harms nobody', async () => {
    const { app, leader, poller, events } = await startInstance({});
    await until(() => leader.isLeader);
    const seen: string[] = [];
    leader.leader$.subscribe(() => {
      throw new Error('a listener of no use');
    });
    leader.leader$.subscribe({
      next: (term) => seen.push(term === undefined ? 'nobody' : 'leader'),
      complete: () => seen.push('over'),
    });
    expect(seen).toEqual(['leader']);
    await app.close();
    expect(seen).toEqual(['leader', 'nobody', 'over']);
    expect(poller.ended).toHaveLength(1);
    expect(errorsOf(events)).toContainEqual(expect.objectContaining({ during: 'listener' }));
  });
});
