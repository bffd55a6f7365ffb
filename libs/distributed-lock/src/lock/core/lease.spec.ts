import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readClocks, systemChance } from '../../common/clock.js';
import { ignoreFailure } from '../../common/promises.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { LOCK, type Renewal, type RenewalReply } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { leaseMargin, leaseValidity } from '../../port/timing.js';
import { Lease, RENEWALS_PER_LEASE } from './lease.js';
import type { Owner } from './owner.js';

const LEASE_MS = 5000;

const GRANT = { kind: 'granted', token: 1, lastToken: 1, waiting: 0, confirmed: true } as const;

/** A lease of an owner that is held. Requests for another length go to `send`. */
function leaseOf(
  clock: ManualClock,
  validUntil: number,
  send: (renewal: Renewal) => Promise<RenewalReply> = () => new Promise(() => undefined),
): Lease {
  const ignore = (): void => undefined;
  const watchdog = {
    renew: async ([lease]: readonly Lease[], leaseMs?: number) => {
      const { renewal, onReply } = (lease as Lease).startRenewal(leaseMs);
      const reply = await send(renewal);
      onReply(reply);
      return [reply];
    },
  };
  const owner = {
    key: 'goods:42',
    id: 'me:1',
    claim: LOCK,
    terms: { claim: LOCK, leaseMs: LEASE_MS, watched: false },
    isHeld: true,
    get now() {
      return clock.now();
    },
    readClocks: () => readClocks(clock),
    acquireLoop: { asked: { wallClockOffset: 0 } },
    onConfirmed: ignore,
    onUnanswered: ignore,
    contention: { onWaitingCount: ignore },
    onLost: ignore,
    runtime: { clock, chance: systemChance, emit: ignore, watchdog },
  } as unknown as Owner;
  return new Lease(owner, { ...GRANT, validUntil }, clock.now());
}

function renewed(validUntil: number): RenewalReply {
  return { kind: 'renewed', validUntil, waiting: 0 };
}

interface Sent {
  readonly sentAt: number;
  readonly leaseMs: number;
  readonly answer: (reply: RenewalReply) => void;
}

const UNKNOWN: RenewalReply = {
  kind: 'unknown',
  error: new LockStoreError('no answer', 'goods:42', 'unknown'),
};

type Step =
  | { readonly do: 'renew' }
  | { readonly do: 'reset'; readonly ms: number }
  | { readonly do: 'execute' | 'lose' }
  /** It waits for no reply any more to what it has sent first. */
  | { readonly do: 'time out' }
  | { readonly do: 'answer'; readonly which: number }
  | { readonly do: 'grant again' }
  | { readonly do: 'pass'; readonly ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant({ do: 'renew' as const }),
  fc.record({ do: fc.constant('reset' as const), ms: fc.constantFrom(300, 1000, 5000, 20_000) }),
  { weight: 3, arbitrary: fc.constant({ do: 'execute' as const }) },
  fc.constant({ do: 'lose' as const }),
  fc.constant({ do: 'time out' as const }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant('answer' as const), which: fc.nat({ max: 3 }) }) },
  fc.constant({ do: 'grant again' as const }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat({ max: 800 }) }) },
);

/** A store that executes what is sent in order, and a network that loses both and lets answers overtake each other. */
class Stage {
  private readonly clock = new ManualClock();
  private readonly lease = leaseOf(
    this.clock,
    leaseValidity(0, LEASE_MS),
    (renewal) => new Promise((resolve) => this.send(renewal, resolve)),
  );
  /** The end of the lease in the store. */
  private endsAt = LEASE_MS;
  private readonly waiting: Sent[] = [];
  private readonly answers: Sent[] = [];

  /** @param isStarted its holder was let in, so that the end of its lease was promised */
  constructor(isStarted: boolean) {
    if (isStarted) this.lease.start();
  }

  get isBelievedTooLong(): boolean {
    return this.lease.measureLeft() > Math.max(0, this.endsAt - this.clock.now());
  }

  async take(step: Step): Promise<void> {
    const now = this.clock.now();
    switch (step.do) {
      case 'renew': {
        const { renewal, onReply } = this.lease.startRenewal();
        return this.send(renewal, onReply);
      }
      case 'reset':
        return ignoreFailure(this.lease.extend(step.ms));
      case 'execute': {
        const sent = this.waiting.shift();
        if (!sent || now >= this.endsAt) return;
        this.endsAt = now + sent.leaseMs;
        this.answers.push(sent);
        return;
      }
      case 'lose':
        return void this.waiting.shift();
      case 'answer': {
        const [sent] = this.answers.splice(step.which, 1);
        return this.answer(sent, (it) => renewed(leaseValidity(it.sentAt, it.leaseMs)));
      }
      case 'time out':
        return this.answer(this.answers.shift() ?? this.waiting.shift(), () => UNKNOWN);
      case 'grant again':
        return this.lease.onGrantedAgain({ ...GRANT, validUntil: leaseValidity(0, LEASE_MS) });
      case 'pass':
        return this.clock.stall(step.ms);
    }
  }

  private async answer(sent: Sent | undefined, reply: (sent: Sent) => RenewalReply): Promise<void> {
    if (!sent) return;
    sent.answer(reply(sent));
    // A reply to `extend` comes through some promises.
    for (let i = 0; i < 10; i++) await Promise.resolve();
  }

  private send({ leaseMs }: Renewal, answer: (reply: RenewalReply) => void): void {
    this.waiting.push({ leaseMs, answer, sentAt: this.clock.now() });
  }
}

/** The reply to an earlier renewal comes between those to two extensions, the shorter one first. Few random runs meet it. */
const SHORT_THEN_LONG: Step[] = [
  { do: 'renew' },
  { do: 'execute' },
  { do: 'reset', ms: 300 },
  { do: 'reset', ms: 5000 },
  { do: 'grant again' },
  { do: 'execute' },
  { do: 'answer', which: 0 },
];

describe('a lease whose length is set anew', () => {
  it('is believed in for no longer than the store keeps it, whatever is lost and in whatever order answers come', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 3, maxLength: 30 }),
        fc.boolean(),
        async (steps, isStarted) => {
          const stage = new Stage(isStarted);
          for (const each of steps) {
            await stage.take(each);
            expect(stage.isBelievedTooLong).toBe(false);
          }
        },
      ),
      { numRuns: 1500, examples: [[SHORT_THEN_LONG, false]] },
    );
  });
});

describe('the renewal of a lease', () => {
  it('is due when a third of what an answer has left of it is over, however late the answer', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: LEASE_MS }), fc.boolean(), (leftMs, isRenewed) => {
        const clock = new ManualClock();
        const lease = leaseOf(clock, isRenewed ? 0 : leftMs);
        if (isRenewed) lease.startRenewal().onReply(renewed(leftMs));
        const dueAfterMs = Math.min(LEASE_MS, leftMs + leaseMargin(LEASE_MS)) / RENEWALS_PER_LEASE;
        clock.stall(dueAfterMs * 0.89);
        expect(lease.isRenewalDue()).toBe(false);
        clock.stall(dueAfterMs * 0.12);
        expect(lease.isRenewalDue()).toBe(true);
      }),
    );
  });
});

describe('the renewal of a fixed lease', () => {
  it('asks for all of the time that is left of it in the store, which is longer than its holder may believe in it', () => {
    const clock = new ManualClock();
    const lease = leaseOf(clock, leaseValidity(0, LEASE_MS));
    lease.start();
    clock.stall(1000);
    expect(lease.startRenewal().renewal.leaseMs).toBe(LEASE_MS - 1000);
  });
});

describe('a fixed lease whose extension is not answered', () => {
  /** Replies are kept until the test gives them, in the order in which they were asked for. */
  const heldSince0 = () => {
    const clock = new ManualClock();
    const answers: ((reply: RenewalReply) => void)[] = [];
    const lease = leaseOf(
      clock,
      leaseValidity(0, LEASE_MS),
      () => new Promise((resolve) => answers.push(resolve)),
    );
    lease.start();
    return { clock, lease, answers };
  };

  it.each([
    ['longer', 20_000, LEASE_MS],
    ['shorter', 300, 300],
  ])(
    'ends as the shorter of both lengths has it, whatever is renewed after that: one to a %s length',
    async (_, ms, lastsMs) => {
      const { lease, answers } = heldSince0();
      const extended = lease.extend(ms);
      answers[0]?.(UNKNOWN);
      await expect(extended).rejects.toBeInstanceOf(LockStoreError);
      const { renewal, onReply } = lease.startRenewal();
      expect(renewal.leaseMs).toBeLessThanOrEqual(lastsMs + leaseMargin(ms));
      onReply(renewed(leaseValidity(0, 20_000)));
      expect(lease.measureLeft()).toBe(leaseValidity(0, lastsMs));
    },
  );

  it.each([
    ['the length before them, if none was answered', [], [20_000, 30_000], LEASE_MS],
    ['the last length that was answered', [300, 10_000], [20_000, 30_000], 10_000],
  ])('of several ends as %s has it, whatever is renewed', async (_, answered, unanswered, lastsMs) => {
    const { lease, answers } = heldSince0();
    for (const ms of answered) {
      const extended = lease.extend(ms);
      answers.shift()?.(renewed(leaseValidity(0, ms)));
      await extended;
    }
    const extended = Promise.allSettled(unanswered.map((ms) => lease.extend(ms)));
    for (const answer of answers) answer(UNKNOWN);
    expect((await extended).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    lease.startRenewal().onReply(renewed(leaseValidity(0, 30_000)));
    expect(lease.measureLeft()).toBe(leaseValidity(0, lastsMs));
  });

  it('lasts for as long as a later extension says, which is answered', async () => {
    const { lease, answers } = heldSince0();
    const [shorter, longer] = [lease.extend(300), lease.extend(20_000)];
    answers[0]?.(UNKNOWN);
    await expect(shorter).rejects.toBeInstanceOf(LockStoreError);
    answers[1]?.(renewed(leaseValidity(0, 20_000)));
    await longer;
    expect(lease.measureLeft()).toBe(leaseValidity(0, 20_000));
  });
});

describe('a lease whose machine was suspended', () => {
  it('is believed in for no longer than before, if the answer of the store leaves less than that', () => {
    const clock = new ManualClock();
    const lease = leaseOf(clock, LEASE_MS);
    clock.suspend(3000);
    expect(lease.measureValidity()).toBe(2000);
    lease.startRenewal().onReply(renewed(1000));
    expect(lease.measureValidity()).toBe(2000);
    expect(lease.state()).toBe('valid');
  });
});
