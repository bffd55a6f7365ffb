import { Logger } from '@nestjs/common';
import { isLockError, type LockStoreError } from '../port/lock.errors.js';
import type { LockEvent } from '../lock/events/lock.events.js';
import { printable } from '../redaction/printable.js';
import type { LockService } from '../lock/lock.service.js';
import { minOf } from '../collections/extremes.js';

const LEVELS: readonly LockLogLevel[] = ['error', 'warn', 'log', 'debug'];
/** One line names at most this many keys. */
const NAMED = 3;

/**
 * Writes the events of one service to Nest's own logger, until the service closes.
 *
 * An outage suspends all locks at once, so the locks of one round of renewals make one line. In an outage the first call
 * without an answer makes a line, and so does the first answer after it.
 */
export class LockLogger {
  private readonly logger: Logger;
  private readonly suspended: Suspended[] = [];
  private readonly resumed: Resumed[] = [];
  /** The number of calls in a row without an answer of the store. */
  private unanswered = 0;

  private constructor(
    name: string,
    private readonly level: LockLogLevel,
  ) {
    this.logger = new Logger(name === 'default' ? 'DistributedLock' : `DistributedLock ${name}`);
  }

  static listen(service: LockService, option: LockLoggerOption): void {
    if (option === false) return;
    const logger = new LockLogger(service.name, option === true ? 'log' : option);
    service.events$.subscribe((event) => logger.onEvent(event));
  }

  private onEvent(event: LockEvent): void {
    switch (event.type) {
      case 'lost':
        // At shutdown the application takes the lock from its holder, after the grace that it has chosen.
        return this.write(event.error.reason === 'shutdown' ? 'warn' : 'error', () => event.error.message);
      case 'error':
        return this.write('warn', () => {
          const about = event.key === undefined ? '' : ` of "${event.key}"`;
          return `Failed during ${event.during}${about}: ${textOf(event.error)}`;
        });
      case 'opened':
        return this.writeOpened(event);
      case 'store':
        return this.writeStore(event);
      case 'warning':
        return this.write('warn', () => event.message);
      case 'suspended':
        if (this.suspended.push(event) === 1) queueMicrotask(() => this.writeSuspended());
        return;
      case 'resumed':
        if (this.resumed.push(event) === 1) queueMicrotask(() => this.writeResumed());
        return;
      case 'acquired':
        if (event.by === 'store') this.onAnswer();
        return this.write('debug', () => {
          const how = event.by === 'local' ? ', handed off in this process' : '';
          return `Acquired "${event.key}" after ${round(event.waitedMs)} ms${how}; token ${event.fencingToken}`;
        });
      case 'released':
        return this.write('debug', () => `Released "${event.key}" after ${round(event.heldMs)} ms`);
      case 'takeover':
        return this.write('warn', () => {
          return `${event.by} takes over "${event.key}": the work under it has ${round(event.graceMs)} ms to end`;
        });
      case 'forced':
        return this.write('warn', () => `Took "${event.key}" by force from ${event.holder}`);
      case 'contended':
        return this.write('debug', () => `Others wait for "${event.key}"`);
      case 'abandoned':
        return this.write(this.levelOf(event.error), () => {
          return `Left the queue for "${event.key}" after ${round(event.waitedMs)} ms: ${textOf(event.error)}`;
        });
      case 'elected':
        return this.write('log', () => `Leads "${event.name}"; token ${event.fencingToken}`);
      case 'demoted':
        return this.write(event.reason === 'lost' ? 'warn' : 'log', () => {
          return `Leads "${event.name}" no longer, after ${round(event.ledMs)} ms: ${event.reason}`;
        });
      case 'asked':
      case 'candidate':
        return;
      default:
        event satisfies never;
    }
  }

  /** Warns of the first call in a row without an answer. Warns of every refusal, which is about one key or one command. */
  private levelOf(error: unknown): LockLogLevel {
    if (!isLockError(error) || error.code !== 'LOCK_STORE') return 'debug';
    if ((error as LockStoreError).reason === 'refused') return 'warn';
    this.unanswered += 1;
    return this.unanswered === 1 ? 'warn' : 'debug';
  }

  private onAnswer(): void {
    const count = this.unanswered;
    this.unanswered = 0;
    if (count > 0) this.write('log', () => `The store answers again; calls that got no lock: ${count}`);
  }

  private writeOpened({ store, clientId, client, address }: Opened): void {
    const where = address === undefined ? store : `${store} at ${address}`;
    const { application, host, process: id } = client;
    const who = `client ${clientId}: ${application} on ${host}, process ${id}`;
    this.write('log', () => `Locks are kept in ${where}; this process is ${who}`);
    if (store !== 'memory' || process.env['NODE_ENV'] !== 'production') return;
    this.write('warn', () => {
      return 'NODE_ENV is production, and locks are kept in the memory of this process: other instances are not excluded. Give the module a store, such as redisStore(url).';
    });
  }

  private writeStore({ state }: StoreChanged): void {
    const what = state.node === undefined ? 'The store' : `Node ${state.node} of the store`;
    if (state.isUp) {
      return this.write('log', () => `${what} can be reached again, after ${round(state.afterMs)} ms`);
    }
    const { error } = state;
    this.write('warn', () => `${what} cannot be used: ${error.message}. Trying again until it can be.`);
  }

  private writeSuspended(): void {
    const events = this.suspended.splice(0);
    this.write('warn', () => {
      const validForMs = round(minOf(events.map((event) => event.validForMs)));
      const until = events.length === 1 ? 'Valid for' : 'The first is valid for';
      return `No answer to the renewal of ${keysOf(events)}: ${textOf(events[0]?.error)}. ${until} another ${validForMs} ms; trying again until then.`;
    });
  }

  private writeResumed(): void {
    const events = this.resumed.splice(0);
    this.write('log', () => `Renewed after all: ${keysOf(events)}`);
  }

  private write(level: LockLogLevel, text: () => string): void {
    if (LEVELS.indexOf(level) > LEVELS.indexOf(this.level)) return;
    try {
      this.logger[level](printable(text()));
    } catch {
      // An error of the logger has nowhere to go. Thrown from a microtask it would end the process.
    }
  }
}

/** From the fewest lines to the most. `debug` adds lines for every call. */
export type LockLogLevel = 'error' | 'warn' | 'log' | 'debug';

/** `true` is `'log'`, which writes nothing for a lock that is acquired and released. */
export type LockLoggerOption = boolean | LockLogLevel;

type Suspended = Extract<LockEvent, { readonly type: 'suspended' }>;
type Opened = Extract<LockEvent, { readonly type: 'opened' }>;
type StoreChanged = Extract<LockEvent, { readonly type: 'store' }>;
type Resumed = Extract<LockEvent, { readonly type: 'resumed' }>;

export function isLockLoggerOption(option: unknown): option is LockLoggerOption {
  return typeof option === 'boolean' || LEVELS.includes(option as LockLogLevel);
}

function keysOf(events: readonly { readonly key: string }[]): string {
  const names = events.slice(0, NAMED).map(({ key }) => `"${key}"`);
  const more = events.length - names.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const round = (ms: number): number => Math.round(ms);
