import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';

/** One caller that got in, as it asked. */
interface Inside {
  readonly lock: Lock;
  readonly weight: number;
}

/** A fair caller that was served: when it asked among all, and what it was given. */
interface Served {
  readonly asked: number;
  readonly token: number;
}

/** Sees who believes to hold which key, and notes what a correct lock never does. */
export class Witness {
  readonly findings: string[] = [];
  private readonly inside = new Map<Lock, Inside>();
  private readonly served = new Map<string, Served[]>();

  /** @param permits of every key that is taken by permits */
  constructor(private readonly permits: number) {}

  onAcquired(lock: Lock, weight: number, fairAfter: number | undefined): void {
    this.inside.set(lock, { lock, weight });
    if (fairAfter === undefined) return;
    const all = this.served.get(lock.key) ?? [];
    this.served.set(lock.key, [...all, { asked: fairAfter, token: lock.fencingToken }]);
  }

  /** Given back, or gone with its process. */
  onLeft(lock: Lock): void {
    this.inside.delete(lock);
  }

  get locks(): readonly Lock[] {
    return [...this.inside.keys()];
  }

  /** Who is inside now may be there together. */
  look(): void {
    const believers = [...this.inside.values()].filter(({ lock }) => lock.validForMs > 0);
    for (const key of new Set(believers.map(({ lock }) => lock.key))) {
      const here = believers.filter(({ lock }) => lock.key === key);
      const taken = here.reduce((sum, { lock, weight }) => sum + (lock.mode === 'permits' ? weight : 0), 0);
      const modes = here.map(({ lock }) => lock.mode);
      const isAlone = modes.includes('exclusive') && here.length > 1;
      if (isAlone) this.findings.push(`a writer of "${key}" is beside somebody: ${modes.join(', ')}`);
      if (taken > this.permits)
        this.findings.push(`${taken} of ${this.permits} permits of "${key}" are held`);
    }
  }

  /** Fencing tokens tell the order of grants, whatever order their news arrived in. */
  checkOrder(): void {
    for (const [key, all] of this.served) {
      const byAsking = all.toSorted((a, b) => a.asked - b.asked);
      for (const [i, { token, asked }] of byAsking.entries()) {
        const before = byAsking[i - 1];
        if (before && before.token > token)
          this.findings.push(`of "${key}" caller ${before.asked} was overtaken by caller ${asked}`);
      }
    }
  }
}
