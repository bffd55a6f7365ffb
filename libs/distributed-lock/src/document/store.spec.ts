import { describe, expect, it } from '@jest/globals';
import { LOCK } from '../port/lock-store.js';
import { ManualClock } from '../testing/manual-clock.js';
import { MemoryDocuments, MemoryRegister } from '../memory/store.js';
import type { Reading } from './document.js';
import { DocumentStore } from './store.js';
import type { RegisterListener } from './timed-register.js';

/** A register at the other end of a network, which may have lost messages. */
class FarRegister extends MemoryRegister {
  listener: RegisterListener | undefined;
  /** Names that are being read. */
  readonly reading: string[] = [];
  private answer = (): void => undefined;
  private answered = Promise.resolve();

  override listen(listener: RegisterListener): void {
    this.listener = listener;
    super.listen(listener);
  }

  override async read(name: string): Promise<Reading> {
    if (this.reading.length === 0) this.answered = new Promise((resolve) => (this.answer = resolve));
    this.reading.push(name);
    await this.answered;
    return super.read(name);
  }

  /** Answers what is being read. */
  answerAll(): number {
    this.answer();
    return this.reading.splice(0).length;
  }
}

describe('a store of documents that may have missed messages', () => {
  it('reads what it holds a hundred keys at a time, and again after a second gap', async () => {
    const clock = new ManualClock();
    const register = new FarRegister(new MemoryDocuments(0), 'a', clock);
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    const store = new DocumentStore({ name: 'far', clientId: 'a' }, register, context);
    const request = { claim: LOCK, leaseMs: 30_000, mayWait: false, ticket: 0, tokens: 1 };
    for (let i = 0; i < 250; i++) await store.acquire({ ...request, key: `k${i}`, owner: `a:${i}` });
    await store.release({ ...request, key: 'k149', owner: 'a:149' });
    const readByRound = async (): Promise<number> => {
      await clock.settle();
      return register.answerAll();
    };
    register.listener?.onGap();
    expect(await readByRound()).toBe(100);
    // Those of the first round have been read before this gap.
    register.listener?.onGap();
    const rounds = [];
    for (let i = 0; i < 5; i++) rounds.push(await readByRound());
    expect(rounds).toEqual([100, 100, 49, 0, 0]);
  });
});
