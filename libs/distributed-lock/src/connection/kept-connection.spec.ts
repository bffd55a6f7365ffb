import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from '../testing/manual-clock.js';
import { LockStoreError } from '../port/lock.errors.js';
import { systemChance } from '../common/clock.js';
import { KeptConnection } from './kept-connection.js';

const TIMEOUT_MS = 500;
/** Longer than each delay. */
const NEXT_MS = 100;

interface Opened {
  isDestroyed: boolean;
  destroy(): void;
}

function newConnection(): Opened {
  return {
    isDestroyed: false,
    destroy() {
      this.isDestroyed = true;
    },
  };
}

describe('a connection that is kept open', () => {
  let clock: ManualClock;
  let kept: KeptConnection<Opened>;
  /** The attempts to open one. */
  let attempts: {
    readonly resolve: (it: Opened) => void;
    readonly reject: (error: Error) => void;
    readonly onLost: (error: unknown) => void;
  }[];
  let events: string[];
  const tell = (event: string): void => void events.push(event);

  const keep = (quickAttempts = 0): void => {
    kept = new KeptConnection({
      clock,
      chance: systemChance,
      commandTimeoutMs: TIMEOUT_MS,
      quickAttempts,
      attempt: () => ({
        withinMs: 1000,
        lateError: new Error('late'),
        open: (_, onLost) =>
          new Promise((resolve, reject) => void attempts.push({ resolve, reject, onLost })),
      }),
      onOpen: () => tell('open'),
      onDown: (error, failures) => tell(`down ${(error as Error).message} ${failures}`),
      outageError: () => new LockStoreError('no connection', undefined, 'unreachable'),
      onState: (state) => tell(state.isUp ? `up after ${state.afterMs}` : 'outage'),
    });
    kept.start();
  };
  const open = async (connection = newConnection()): Promise<Opened> => {
    attempts.at(-1)?.resolve(connection);
    await clock.advance(0);
    return connection;
  };
  const fail = async (message: string): Promise<void> => {
    attempts.at(-1)?.reject(new Error(message));
    await clock.advance(0);
  };

  beforeEach(() => {
    clock = new ManualClock();
    [attempts, events] = [[], []];
  });

  it('is opened again after a delay when it is lost, and is destroyed', async () => {
    keep();
    const first = await open();
    attempts[0]?.onLost(new Error('reset'));
    expect([kept.current, first.isDestroyed, attempts.length]).toEqual([undefined, true, 1]);
    await clock.advance(45);
    const second = await open();
    expect(kept.current).toBe(second);
    expect(events).toEqual(['open', 'down reset 0', 'open']);
  });

  it('is lost once, and a lost one does not end the next', async () => {
    keep();
    const first = await open();
    attempts[0]?.onLost(new Error('reset'));
    await clock.advance(45);
    const second = await open();
    attempts[0]?.onLost(new Error('reset'));
    kept.lose(first, new Error('reset'));
    expect(kept.current).toBe(second);
  });

  it('that is not open in time is given up, and destroyed when it opens later', async () => {
    keep();
    await clock.advance(1000);
    expect(events).toEqual(['outage', 'down late 0']);
    const late = await open();
    expect([late.isDestroyed, kept.current]).toEqual([true, undefined]);
    await clock.advance(45);
    expect(attempts).toHaveLength(2);
  });

  it('that is lost as soon as it is open counts as one that does not open', async () => {
    keep();
    await open();
    attempts.at(-1)?.onLost(new Error('first'));
    await clock.advance(NEXT_MS);
    await open();
    attempts.at(-1)?.onLost(new Error('second'));
    await clock.advance(NEXT_MS);
    await open();
    await clock.advance(2000);
    attempts.at(-1)?.onLost(new Error('third'));
    expect(events.filter((event) => event.startsWith('down'))).toEqual([
      'down first 0',
      'down second 1',
      'down third 0',
    ]);
  });

  it('is tried at each of several servers at once, and then after delays', async () => {
    keep(2);
    await fail('one');
    await fail('two');
    expect(attempts).toHaveLength(3);
    await fail('one');
    expect(attempts).toHaveLength(3);
    await clock.advance(45);
    expect(attempts).toHaveLength(4);
  });

  it('reports an outage that callers have met, and its end', async () => {
    keep();
    await clock.advance(700);
    await open();
    expect(events).toEqual(['outage', 'up after 700', 'open']);
  });

  it('leaves nothing open and no timer when it closes', async () => {
    keep();
    kept.close();
    const late = await open();
    expect([late.isDestroyed, kept.current, clock.pendingTimers]).toEqual([true, undefined, 0]);
  });
});
