import type { HistoryRecord } from '../../../verification/chaos/index.mjs';

/** `a` of the call `a.1`. */
const appOf = (call: string): string => call.split('.')[0]!;

interface Hold {
  readonly askedAt?: number;
  readonly from: number;
  readonly to: number;
  /** How long it believed in its lock; until it left, by default. */
  readonly believedTo?: number;
  readonly token: number;
  readonly mode?: string;
  readonly permits?: number;
}

/** A history written by hand. Times in ms; everything is about the key "goods". */
export class Story {
  private readonly told: HistoryRecord[] = [];

  get records(): HistoryRecord[] {
    return [...this.told].sort((a, b) => a.at - b.at);
  }

  record(record: HistoryRecord): void {
    this.told.push(record);
  }

  asked(call: string, { at, waitMs }: { at: number; waitMs: number }): void {
    const how = { key: 'goods', mode: 'exclusive', via: 'withLock', waitMs };
    this.record({ type: 'asked', who: appOf(call), at, call, ...how });
  }

  settled(call: string, { at, outcome }: { at: number; outcome: string }): void {
    this.record({ type: 'settled', who: appOf(call), at, call, outcome });
  }

  /** A call from its asking to its end, without a word to the register. */
  hold(call: string, { from, to, token, mode = 'exclusive', permits, ...more }: Hold): void {
    const { askedAt = from - 10, believedTo = to } = more;
    const [app, key] = [appOf(call), 'goods'];
    const asked = { type: 'asked', at: askedAt, mode, permits, via: 'withLock', waitMs: 10_000 };
    this.record({ who: app, call, key, ...asked });
    this.record({ type: 'entered', who: app, at: from, call, key, token, mode, believedAt: from });
    this.record({ type: 'left', who: app, at: to, call, key, believedAt: believedTo });
    this.settled(call, { at: to, outcome: 'done' });
  }

  write(call: string, { at, ...request }: { at: number; token: number; value: number }): void {
    this.record({ type: 'write', who: 'witness', at, call, key: 'goods', accepted: true, ...request });
  }

  fault(fault: { kind: string; from: number; to: number; recoverMs: number; [more: string]: unknown }): void {
    this.record({ type: 'fault', who: 'runner', at: fault.to, ...fault });
  }

  /** What a process is told of a node of its quorum. */
  node(app: string, { at, isUp }: { at: number; isUp: boolean }): void {
    this.record({ type: 'node', who: app, at, node: 2, isUp });
  }

  /** A process that lived until the end. */
  exit(app: string, exit: { errors: string; code: number; expected: boolean }): void {
    this.record({ type: 'started', who: app, at: 0 });
    if (exit.expected) {
      this.record({ type: 'closing', who: 'runner', at: 9500, app });
      this.record({ type: 'closed', who: app, at: 9600, tookMs: 100 });
    }
    this.record({ type: 'exited', who: 'runner', at: 9650, app, signal: null, ...exit });
  }
}

/** Two processes, one lock each, a write, and a calm end at which both are served. @param more settings of the trial */
export function goodHistory(more: object = {}): Story {
  const story = new Story();
  const settings = {
    kind: 'made up',
    seed: '1',
    keys: ['goods'],
    leaseMs: 1500,
    commandTimeoutMs: 500,
    graceMs: 1000,
    ...more,
  };
  story.record({ type: 'trial', who: 'runner', at: 0, ...settings });
  for (const app of ['a', 'b']) story.exit(app, { errors: '', code: 0, expected: true });
  story.hold('a.0', { from: 100, to: 200, token: 1 });
  story.write('a.0', { at: 150, token: 1, value: 1 });
  story.record({ type: 'calm', who: 'runner', at: 8000 });
  story.hold('a.8', { from: 9000, to: 9100, token: 101 });
  story.hold('b.8', { from: 9200, to: 9300, token: 102 });
  story.record({ type: 'closing-all', who: 'runner', at: 9500 });
  story.record({ type: 'remains', who: 'runner', at: 9990, keys: [] });
  return story;
}
