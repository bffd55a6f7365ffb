import type { ServerResponse } from 'node:http';
import type { LockService } from '../lock/lock.service.js';
import { timeOfDay } from '../time/clock.js';
import { eventView } from './event-view.js';

/** Events that wait for a slow client. Later ones are counted and left out. */
const MOST_WAITING = 500;
/** Events are sent together, because a key that many want makes thousands of them in a second. */
const FLUSH_MS = 100;
/** Often enough for proxies, which cut a connection that is silent for a minute. */
const BEAT_MS = 15_000;
/** The stream ends after this time. The client then asks again, and so the guard is asked again. */
const LONGEST_MS = 10 * 60_000;

/** Sends the events of one service to one client, as server-sent events, until either of them ends. */
export class EventStream {
  private waiting: string[] = [];
  private missed = 0;
  private cancelFlush: (() => void) | undefined;
  private isOver = false;
  private readonly stops: readonly (() => void)[];

  constructor(
    private readonly response: ServerResponse,
    private readonly locks: LockService,
    private readonly onEnd: (stream: EventStream) => void,
  ) {
    const { clock } = locks.options;
    const end = () => this.end();
    const events = locks.events$.subscribe({
      next: (event) => this.add(eventView(event, timeOfDay(clock))),
      complete: end,
    });
    const beat = clock.interval(BEAT_MS).subscribe(() => response.write(':\n\n'));
    this.stops = [() => events.unsubscribe(), () => beat.unsubscribe(), clock.after(LONGEST_MS, end)];
    response.on('close', end);
    response.on('error', end);
    response.write('retry: 2000\n\n');
  }

  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const stop of this.stops) stop();
    this.cancelFlush?.();
    this.response.end();
    this.onEnd(this);
  }

  private add(view: object | undefined): void {
    if (!view) return;
    if (this.waiting.length >= MOST_WAITING) this.missed += 1;
    else this.waiting.push(messageOf(view));
    this.cancelFlush ??= this.locks.options.clock.after(FLUSH_MS, () => this.flush());
  }

  private flush(): void {
    if (this.isOver) return;
    if (this.response.writableNeedDrain) {
      this.response.once('drain', () => this.flush());
      return;
    }
    this.cancelFlush = undefined;
    const missed = this.missed > 0 ? messageOf({ type: 'missed', count: this.missed }) : '';
    this.response.write(this.waiting.join('') + missed);
    this.waiting = [];
    this.missed = 0;
  }
}

function messageOf(view: object): string {
  return `data: ${JSON.stringify(view)}\n\n`;
}
