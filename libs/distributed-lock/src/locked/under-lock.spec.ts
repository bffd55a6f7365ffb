import { describe, expect, it } from '@jest/globals';
import { Observable, Subject, type Subscription } from 'rxjs';
import { LockLostError } from '../port/lock.errors.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import { acquireFor, type WaitCancellation } from './acquire.js';
import { UnderLock } from './under-lock.js';

const lost = new LockLostError('a', 1, 'expired', 'for a test');

/** Work under a lock; `log` tells in order what its subscriber sees and when the lock goes back. */
class Scene {
  readonly log: string[] = [];
  readonly inner = new Subject<string>();
  private readonly lossListeners = new Set<(loss: LockLostError) => void>();
  isLost = false;
  /** The store is asked, and says that the lock is lost. */
  isInDoubt = false;
  readonly lock = {
    key: 'a',
    isInDoubt: () => this.isInDoubt,
    whenSure: async () => {
      this.lose();
      this.isLost = true;
    },
    noticeLoss: () => (this.isLost ? lost : undefined),
    onLoss: (listener: (loss: LockLostError) => void) => {
      this.lossListeners.add(listener);
      return () => this.lossListeners.delete(listener);
    },
    assertHeld: () => {
      if (this.isLost) throw lost;
    },
    releaseInBackground: async () => void this.log.push('released'),
  } as unknown as HeldLock;
  readonly subscription: Subscription;
  underLock!: UnderLock<string>;

  lose(): void {
    for (const tell of this.lossListeners) tell(lost);
  }

  end(): void {
    this.close();
  }

  close(): void {
    this.log.push('closed');
  }

  constructor(onLost: 'throw' | 'ignore' = 'throw') {
    const work = new Observable<string>((out) => {
      this.underLock = new UnderLock(out, this.lock, { onLost });
      return this.underLock.start((observer) => this.inner.subscribe(observer), this);
    });
    this.subscription = work.subscribe({
      next: (value) => this.log.push(value),
      error: (error: Error) => this.log.push(error.name),
      complete: () => this.log.push('complete'),
    });
  }
}

const acquiring = (steps: Parameters<typeof acquireFor<unknown>>[1]): Observable<unknown> =>
  new Observable((out) => acquireFor(out, steps));

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('work under a lock', () => {
  it('that ends with a value releases before the value goes out', () => {
    const { inner, log } = new Scene();
    inner.next('value');
    inner.complete();
    expect(log).toEqual(['closed', 'released', 'value', 'complete']);
  });

  it('that has ended while something of it still runs answers at once and releases when that is over', () => {
    const scene = new Scene();
    const end = scene.underLock.addPart();
    scene.inner.error(new Error());
    expect(scene.log).toEqual(['closed', 'Error']);
    end();
    expect(scene.log.at(-1)).toBe('released');
  });

  it('is stopped if it turns out to be a stream after its subscriber has left', () => {
    const { inner, log, subscription, underLock } = new Scene();
    subscription.unsubscribe();
    underLock.streams();
    expect(inner.observed).toBe(false);
    expect(log).toEqual(['closed', 'released']);
  });

  it('is stopped if it turns out to be a stream while it starts, its subscriber gone', () => {
    const scene = new Scene();
    const { lock, log } = scene;
    const stopped = { by: 'nobody' };
    const gone = new Observable<string>((out) => {
      const underLock = new UnderLock(out, lock, { onLost: 'throw' });
      out.unsubscribe();
      const stream = new Observable<string>(() => {
        underLock.streams();
        return () => (stopped.by = 'its subscriber');
      });
      underLock.start((observer) => stream.subscribe(observer), scene);
    });
    gone.subscribe();
    expect([stopped.by, ...log]).toEqual(['its subscriber', 'closed', 'released']);
  });

  it('is not told of a loss after its end, although something of it still runs', () => {
    const scene = new Scene();
    scene.underLock.addPart();
    scene.inner.complete();
    scene.lose();
    expect(scene.log).toEqual(['closed', 'complete']);
  });

  it('that cannot start ends with its error and gives the lock back', () => {
    const scene = new Scene();
    const { lock, log } = scene;
    const fail = () => {
      throw new TypeError();
    };
    const work = new Observable<string>((out) =>
      new UnderLock(out, lock, { onLost: 'throw' }).start(fail, scene),
    );
    work.subscribe({ error: (error: Error) => log.push(error.name) });
    expect(log).toEqual(['closed', 'released', 'TypeError']);
  });

  it('that succeeds after a loss that nobody has noticed ends with the loss', () => {
    const scene = new Scene();
    scene.isLost = true;
    scene.inner.next('value');
    scene.inner.complete();
    expect(scene.log).toEqual(['closed', 'released', 'LockLostError']);
  });

  it('that fails after a loss that nobody has noticed ends with its own error', () => {
    const scene = new Scene();
    scene.isLost = true;
    scene.inner.error(new TypeError());
    expect(scene.log).toEqual(['closed', 'released', 'TypeError']);
  });
});

describe('acquiring for a subscriber', () => {
  it('that fails while the lock is in doubt ends with its own error, and one that succeeds waits for the store', async () => {
    const [failing, succeeding] = [new Scene(), new Scene()];
    for (const scene of [failing, succeeding]) scene.isInDoubt = true;
    failing.inner.error(new Error());
    succeeding.inner.complete();
    await nextTurn();
    expect(failing.log).toEqual(['closed', 'released', 'Error']);
    expect(succeeding.log.filter((it) => it !== 'closed')).toEqual(['LockLostError', 'released']);
  });

  it('a lock that is granted in the moment of leaving is given back', async () => {
    const { lock, log } = new Scene();
    let grant: (outcome: { lock: HeldLock }) => void = () => undefined;
    const acquire = (): Promise<{ lock: HeldLock }> => new Promise((resolve) => (grant = resolve));
    const subscription = acquiring({ acquire, run: () => void log.push('ran') }).subscribe();
    subscription.unsubscribe();
    grant({ lock });
    await nextTurn();
    expect(log).toEqual(['released']);
  });

  it('work that throws instead of starting ends with its error', async () => {
    const seen: unknown[] = [];
    const cannot = new Error('cannot start');
    const run = (): never => {
      throw cannot;
    };
    acquiring({ acquire: async () => ({}), run }).subscribe({ error: (error) => seen.push(error) });
    await nextTurn();
    expect(seen).toEqual([cannot]);
  });

  it('ends with the wait: who leaves later aborts nothing', async () => {
    const cancellations: WaitCancellation[] = [];
    const results = acquiring({
      async acquire(cancellation) {
        cancellations.push(cancellation);
        return { answer: 'answer' };
      },
      run: () => undefined,
    });
    const subscription = results.subscribe();
    await nextTurn();
    subscription.unsubscribe();
    expect(cancellations.map(({ aborted }) => aborted)).toEqual([false]);
  });
});
