import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { follow } from '../../../../test/support/lock-world.js';
import { injectedProperty } from '../distributed-lock.tokens.js';
import { LockService } from '../lock/lock.service.js';
import { memoryStore } from '../memory/store.js';
import { ManualClock } from '../testing/manual-clock.js';
import { LockedJob } from './locked-job.decorator.js';

const OWN = '7';
const NEXT = '8';

/** The reply that the line of the key gives this job. */
interface Line {
  join: 'go' | 'later' | 'ask again';
  head: string | null;
  next: string | null;
}

describe('a job under @LockedJob', () => {
  let clock: ManualClock;
  let locks: LockService;
  let line: Line;
  let asked: string[];
  let delayed: string[];
  let woken: string[];
  let worked: number;

  class Job {
    readonly timestamp = 0;

    constructor(readonly id: string) {}

    static async fromId(_: object, id: string): Promise<Job> {
      return new Job(id);
    }

    async moveToDelayed(): Promise<void> {
      delayed.push(this.id);
    }

    async promote(): Promise<void> {
      woken.push(this.id);
    }
  }

  class Sender {
    readonly worker = {
      toKey: (type: string) => `bull:mails:${type}`,
      client: {
        defineCommand: () => undefined,
        runCommand: async (name: string) => {
          asked.push(name);
          return { nestLockJoin: line.join, nestLockHead: line.head, nestLockLeave: line.next }[name];
        },
      },
    };

    constructor() {
      Object.assign(this, { [injectedProperty(undefined)]: locks });
    }

    @LockedJob(() => 'mails')
    async process(_job: Job): Promise<string> {
      worked += 1;
      return 'sent';
    }
  }

  beforeEach(() => {
    clock = new ManualClock();
    locks = new LockService({ store: memoryStore(), clock });
    locks.open();
    line = { join: 'go', head: null, next: null };
    [asked, delayed, woken, worked] = [[], [], [], 0];
  });
  afterEach(() => locks.close());

  const run = async () => {
    const done = follow(new Sender().process(new Job(OWN)));
    await clock.advance(2000);
    return done;
  };

  it('works if it is its turn, and then wakes the next one', async () => {
    line.next = NEXT;
    expect((await run()).value).toBe('sent');
    expect({ worked, delayed, woken }).toEqual({ worked: 1, delayed: [], woken: [NEXT] });
  });

  it('is put back behind others, and leaves it to them to wake it', async () => {
    line = { join: 'later', head: '6', next: null };
    expect((await run()).error).toMatchObject({ name: 'DelayedError' });
    expect({ worked, delayed, woken }).toEqual({ worked: 0, delayed: [OWN], woken: [] });
  });

  it('wakes itself if those before it have left while it was put back: they could not', async () => {
    line = { join: 'later', head: OWN, next: null };
    expect((await run()).error).toMatchObject({ name: 'DelayedError' });
    expect({ worked, delayed, woken }).toEqual({ worked: 0, delayed: [OWN], woken: [OWN] });
  });

  it('waits a moment for an older one that a worker has taken, and no longer', async () => {
    line.join = 'ask again';
    expect((await run()).value).toBe('sent');
    expect(asked.filter((name) => name === 'nestLockJoin').length).toBeGreaterThan(1);
    expect(worked).toBe(1);
  });

  it('is put back while somebody else has the lock, and woken as soon as that one has released', async () => {
    const other = await locks.acquire('mails');
    expect((await run()).error).toMatchObject({ name: 'DelayedError' });
    expect({ worked, delayed, woken }).toEqual({ worked: 0, delayed: [OWN], woken: [] });
    await other.release();
    await clock.settle();
    expect(woken).toEqual([OWN]);
  });
});
