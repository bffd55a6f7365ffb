import type { ServerResponse } from 'node:http';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Subscription } from 'rxjs';
import { timeOfDay } from '../common/clock.js';
import type { LockEvent } from '../lock/events/lock.events.js';
import type { LockService } from '../lock/lock.service.js';
import { type AdminReply, type AdminRequest, rawOf } from './request.js';

/** At most this many events are queued for a slow client. Further ones are dropped, and the client gets their number. */
const MAX_WAITING = 500;
/** Events are collected for this long and sent together, because a busy key makes thousands of them per second. */
const FLUSH_MS = 100;
/** A comment, which browsers ignore, is sent this often. Proxies close a connection on which nothing is sent for a minute. */
const BEAT_MS = 15_000;
/** The stream ends after this time. The browser connects again, so the guard checks the operator again. */
const MAX_STREAM_MS = 10 * 60_000;

/** The stream ends if its client has read nothing for this long, because everything that is written meanwhile stays in memory. */
const MAX_UNREAD_MS = 30_000;
/**
 * How long the end of a stream may take to reach the client. A client that does not read would keep the server of a closing
 * application open.
 */
const MAX_ENDING_MS = 1000;

/**
 * Sends the events of one service to one client as server-sent events, until the service or the client closes.
 *
 * It learns from the result of `write` and from the event `drain` whether the client keeps up. It does not use
 * `writableNeedDrain`, which the HTTP/2 response of Node lacks.
 */
export class EventStream {
  private waiting: string[] = [];
  private missed = 0;
  private cancelFlush: (() => void) | undefined;
  /** Set while the client reads too slowly. Nothing is written until it has caught up; if it takes too long, the stream ends. */
  private cancelPatience: (() => void) | undefined;
  /** Timers and subscriptions to stop when the stream ends. Closed from then on: what is added later stops at once. */
  private readonly stops = new Subscription();

  constructor(
    private readonly response: ServerResponse,
    private readonly locks: LockService,
    private readonly onEnd: (stream: EventStream) => void,
  ) {}

  start(): void {
    const { response, locks, stops } = this;
    const { clock } = locks.options;
    const end = () => this.end();
    response.on('close', () => this.onClosed());
    response.on('error', () => this.onClosed());
    response.on('drain', () => this.onDrained());
    this.write('retry: 2000\n\n');
    stops.add(clock.interval(BEAT_MS).subscribe(() => this.write(':\n\n')));
    stops.add(clock.after(MAX_STREAM_MS, end));
    // Subscribe last: the event stream of a closed service completes at once, which ends this stream.
    const next = (event: LockEvent) => this.add(eventView(event, timeOfDay(clock)));
    stops.add(locks.events$.subscribe({ next, complete: end }));
  }

  end(): void {
    if (this.stops.closed) return;
    const { response, cancelPatience } = this;
    const { clock } = this.locks.options;
    this.onClosed();
    if (cancelPatience) {
      response.destroy();
      return;
    }
    const cancel = clock.after(MAX_ENDING_MS, () => response.destroy());
    response.once('close', cancel);
    response.end();
  }

  private onClosed(): void {
    if (this.stops.closed) return;
    this.stops.unsubscribe();
    this.cancelFlush?.();
    this.cancelPatience?.();
    this.onEnd(this);
  }

  private onDrained(): void {
    this.cancelPatience?.();
    this.cancelPatience = undefined;
    if (this.waiting.length > 0) this.flush();
  }

  private add(view: object | undefined): void {
    if (!view) return;
    if (this.waiting.length >= MAX_WAITING) this.missed += 1;
    else this.waiting.push(messageOf(view));
    this.cancelFlush ??= this.locks.options.clock.after(FLUSH_MS, () => this.flush());
  }

  private flush(): void {
    if (this.stops.closed || this.cancelPatience) return;
    this.cancelFlush?.();
    this.cancelFlush = undefined;
    const missed = this.missed > 0 ? messageOf({ type: 'missed', count: this.missed }) : '';
    const text = this.waiting.join('') + missed;
    this.waiting = [];
    this.missed = 0;
    this.write(text);
  }

  private write(text: string): void {
    if (this.cancelPatience || this.response.write(text)) return;
    this.cancelPatience = this.locks.options.clock.after(MAX_UNREAD_MS, () => this.end());
  }
}

function messageOf(view: object): string {
  return `data: ${JSON.stringify(view)}\n\n`;
}

/** Which types of events are sent. Not those that every call causes, thousands per second, and not those of the boot. */
const IS_SHOWN: Readonly<Record<LockEvent['type'], boolean>> = {
  asked: false,
  acquired: false,
  released: false,
  abandoned: true,
  contended: true,
  takeover: true,
  forced: true,
  suspended: true,
  resumed: true,
  lost: true,
  candidate: true,
  elected: true,
  demoted: true,
  opened: false,
  store: true,
  warning: true,
  error: true,
};

/**
 * Converts an event into the JSON object to send; `undefined` for a type that is not sent.
 *
 * @param now the time of day in ms
 */
function eventView(event: LockEvent, now: number): object | undefined {
  if (!IS_SHOWN[event.type]) return undefined;
  const at = new Date(now);
  if (event.type === 'store') {
    const { state, ...rest } = event;
    const { isUp, node } = state;
    return { at, ...rest, isUp, node, ...(!isUp && { message: state.error.message }) };
  }
  if (!('error' in event)) return { at, ...event };
  const { error, ...rest } = event;
  return { at, ...rest, message: error instanceof Error ? error.message : 'not an Error' };
}

/** Keeps all open event streams, and ends them at shutdown, because the HTTP server waits for open connections. */
@Injectable()
export class EventStreams implements OnModuleDestroy {
  private readonly open = new Set<EventStream>();
  private isClosing = false;

  add({ method }: AdminRequest, reply: AdminReply, locks: LockService): void {
    const response = rawOf(reply);
    const isOver = method === 'HEAD' || this.isClosing;
    response.writeHead(this.isClosing ? 503 : 200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      // Without this, a proxy may compress or buffer the stream, and events arrive late.
      'Cache-Control': 'no-store, no-transform',
      'X-Accel-Buffering': 'no',
      'X-Content-Type-Options': 'nosniff',
      // Let the connection end with the stream. If it were kept alive, it would keep the server of a closing application open.
      ...(response.req.httpVersionMajor === 1 && { Connection: 'close' }),
      ...(this.isClosing && { 'Retry-After': '1' }),
    });
    if (isOver) {
      response.end();
      return;
    }
    const stream = new EventStream(response, locks, () => this.open.delete(stream));
    this.open.add(stream);
    stream.start();
  }

  onModuleDestroy(): void {
    this.isClosing = true;
    for (const stream of this.open) stream.end();
  }
}
