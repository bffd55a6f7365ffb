import { giveUpAfter } from '../../../time/turns.js';
import type { Clock } from '../../../time/clock.js';

/** The callers that wait until a connection or a session is open. */
export class Openings<Opened> {
  private readonly waiting = new Set<Opening<Opened>>();

  constructor(private readonly clock: Clock) {}

  get size(): number {
    return this.waiting.size;
  }

  /** @throws the error of `refuse`, or of `lateError` when nothing was opened within `withinMs` */
  wait({ key, withinMs, lateError }: Wait): Promise<Opened> {
    return new Promise((resolve, reject) => {
      const cancel = giveUpAfter(this.clock, withinMs, () => {
        this.waiting.delete(opening);
        reject(lateError());
      });
      const opening = { key, cancel, resolve, reject };
      this.waiting.add(opening);
    });
  }

  onOpen(opened: Opened): void {
    for (const { resolve } of this.takeAll()) resolve(opened);
  }

  refuse(errorFor: (key: string | undefined) => Error): void {
    for (const { key, reject } of this.takeAll()) reject(errorFor(key));
  }

  private takeAll(): readonly Opening<Opened>[] {
    const all = [...this.waiting];
    this.waiting.clear();
    for (const { cancel } of all) cancel();
    return all;
  }
}

interface Wait {
  /** The key for errors. */
  readonly key: string | undefined;
  readonly withinMs: number;
  readonly lateError: () => Error;
}

interface Opening<Opened> {
  readonly key: string | undefined;
  readonly cancel: () => void;
  readonly resolve: (opened: Opened) => void;
  readonly reject: (error: Error) => void;
}
