import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { KEEP_ALIVES_PER_SESSION } from './session.js';
import { LeaderKnowledge } from './leader-knowledge.js';

const SESSION_MS = 1000;
const PING_MS = SESSION_MS / 4;

interface Claim {
  /** The client says that the leader counts from here. */
  readonly countedFrom: number;
  /** When the leader was told of the session last. */
  readonly toldAt: number;
}

/** Carries messages in order, each as late as the next delay says. */
class Line {
  private freeAt = 0;

  constructor(
    private readonly world: World,
    private readonly delays: () => number,
  ) {}

  send(arrive: () => void): void {
    this.freeAt = Math.max(this.freeAt, this.world.now + this.delays());
    this.world.at(this.freeAt, arrive);
  }
}

/** One client, its follower and the leader, in a time of their own. */
class World {
  now = 0;
  readonly claims: Claim[] = [];
  private readonly events: { readonly at: number; readonly order: number; readonly run: () => void }[] = [];
  private readonly knowledge = new LeaderKnowledge(SESSION_MS);
  private readonly lines: Record<'toFollower' | 'toLeader' | 'fromLeader' | 'toClient', Line>;
  private hasHeard = false;
  private toldAt = 0;

  constructor(delays: () => number) {
    const line = (): Line => new Line(this, delays);
    this.lines = { toFollower: line(), toLeader: line(), fromLeader: line(), toClient: line() };
  }

  at(at: number, run: () => void): void {
    this.events.push({ at, order: this.events.length, run });
  }

  run(untilMs: number): readonly Claim[] {
    for (let at = 0; at < untilMs; at += PING_MS) this.at(at, () => this.ping());
    for (let at = 0; at < untilMs; at += SESSION_MS / KEEP_ALIVES_PER_SESSION)
      this.at(at, () => this.keepAlive());
    const isNext = (a: (typeof this.events)[number], b: (typeof this.events)[number]): boolean =>
      a.at < b.at || (a.at === b.at && a.order < b.order);
    const done = new Set<unknown>();
    for (;;) {
      const left = this.events.filter((event) => !done.has(event) && event.at < untilMs);
      if (left.length === 0) return this.claims;
      const next = left.reduce((least, event) => (isNext(event, least) ? event : least));
      done.add(next);
      this.now = next.at;
      next.run();
    }
  }

  private ping(): void {
    const { fromLeader, toLeader } = this.lines;
    fromLeader.send(() => {
      const { hasHeard } = this;
      this.hasHeard = false;
      toLeader.send(() => {
        if (hasHeard) this.toldAt = this.now;
      });
    });
  }

  private keepAlive(): void {
    const syncSentAt = this.now;
    this.request(() =>
      this.request(() => {
        const countedFrom = this.knowledge.countedFrom(syncSentAt);
        this.claims.push({ countedFrom, toldAt: this.toldAt });
      }),
    );
  }

  private request(onAnswer: () => void): void {
    const sentAt = this.now;
    const { toFollower, toLeader, fromLeader, toClient } = this.lines;
    const answer = (): void => {
      this.knowledge.onAnswered({ sentAt, answeredAt: this.now });
      onAnswer();
    };
    toFollower.send(() => {
      this.hasHeard = true;
      toLeader.send(() => fromLeader.send(() => toClient.send(answer)));
    });
  }
}

/** Mostly short, and now and then a hold of up to most of a session. */
const delay = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 0, max: 20 }) },
  { weight: 1, arbitrary: fc.integer({ min: 20, max: 0.9 * SESSION_MS }) },
);

describe('what a client knows of the leader', () => {
  it('never counts from a request that the leader was not told of, however late messages are', () => {
    fc.assert(
      fc.property(fc.array(delay, { minLength: 1, maxLength: 200 }), (delays) => {
        let i = 0;
        const claims = new World(() => delays[i++ % delays.length] as number).run(4 * SESSION_MS);
        for (const { countedFrom, toldAt } of claims) expect(countedFrom).toBeLessThanOrEqual(toldAt);
      }),
    );
  });

  it('is two fifths of a session behind at most while all answers are quick', () => {
    const claims = new World(() => 1).run(4 * SESSION_MS);
    const beat = SESSION_MS / KEEP_ALIVES_PER_SESSION;
    const behind = claims.map(({ countedFrom }, i) => (i + 1) * beat - countedFrom);
    expect(Math.max(...behind.slice(5))).toBeLessThanOrEqual(0.4 * SESSION_MS);
    expect(claims.length).toBeGreaterThan(30);
  });
});
