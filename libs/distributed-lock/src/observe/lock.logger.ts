import { Logger } from '@nestjs/common';
import { withoutContext } from '../common/promises.js';
import { isLockError, type LockStoreError } from '../port/lock.errors.js';
import type { Clock } from '../common/clock.js';
import type { LockEvent } from '../lock/events/lock.events.js';
import { escapeUnprintable } from '../common/redaction.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { LockService } from '../lock/lock.service.js';
import { minOf } from '../common/collections.js';

const LEVELS: readonly LockLogLevel[] = ['error', 'warn', 'log', 'debug'];
/** A line lists at most this many keys, and the number of the others. */
const NAMED = 3;
/** After a line about losses, errors, suspended or resumed locks, further events of these types are collected for this long. */
const GATHERED_FOR_MS = 1000;

/**
 * Writes the events of one service to Nest's own logger, until the service closes.
 *
 * An outage of the store suspends and ends all locks, each at its own moment, and makes their releases fail. So that this does
 * not make one line per lock, events of one type and cause are collected into one line: first those of one turn of the event
 * loop, then those of each second. Of calls without an answer from the store only the first one makes a line, and so does the
 * first answer after it. Collected events are written before any other line.
 */
export class LockLogger {
  private readonly logger: Logger;
  /** The events to write with the next flush, by type and cause. Empty while no flush is scheduled. */
  private readonly gathered = new Map<string, Gathered[]>();
  private isFlushDue = false;
  private cancelFlush: (() => void) | undefined;
  /** How many calls in a row have failed without an answer from the store. */
  private unanswered = 0;
  private readonly isDebug: boolean;

  private constructor(
    name: string,
    private readonly level: LockLogLevel,
    private readonly clock: Clock,
  ) {
    this.isDebug = this.shows('debug');
    this.logger = new Logger(name === 'default' ? 'DistributedLock' : `DistributedLock ${name}`);
  }

  static listen(service: LockService, option: LockLoggerOption): void {
    if (option === false) return;
    const logger = new LockLogger(service.name, option === true ? 'log' : option, service.options.clock);
    ServiceInternals.of(service).events.log = logger;
  }

  wants(type: LockEvent['type']): boolean {
    switch (type) {
      case 'asked':
      case 'candidate':
        return false;
      case 'acquired':
        return this.unanswered > 0 || this.isDebug;
      case 'released':
      case 'contended':
        return this.isDebug;
      default:
        return true;
    }
  }

  /** Writes the event outside of the async context of the call that caused it, because the event may be about another call. */
  write(event: LockEvent): void {
    withoutContext(() => this.onEvent(event));
  }

  stop(): void {
    this.cancelFlush?.();
    this.writeGathered();
  }

  private onEvent(event: LockEvent): void {
    switch (event.type) {
      case 'lost':
      case 'error':
      case 'suspended':
      case 'resumed':
        return this.gather(event);
      case 'opened':
        return this.writeOpened(event);
      case 'store':
        return this.writeStore(event);
      case 'warning':
        return this.writeLine('warn', () => event.message);
      case 'acquired':
        if (event.by === 'store') this.onAnswer();
        return this.writeLine('debug', () => {
          const how = event.by === 'local' ? ', handed off in this process' : '';
          return `Acquired "${event.key}" after ${round(event.waitedMs)} ms${how}; token ${event.fencingToken}`;
        });
      case 'released':
        return this.writeLine('debug', () => `Released "${event.key}" after ${round(event.heldMs)} ms`);
      case 'takeover':
        return this.writeLine('warn', () => {
          return `${event.by} takes over "${event.key}": the work under it has ${round(event.graceMs)} ms to end`;
        });
      case 'forced':
        return this.writeLine('warn', () => forcedText(event));
      case 'contended':
        return this.writeLine('debug', () => `Others wait for "${event.key}"`);
      case 'abandoned':
        return this.writeLine(this.levelOf(event.error), () => {
          return `Left the queue for "${event.key}" after ${round(event.waitedMs)} ms: ${textOf(event.error)}`;
        });
      case 'elected':
        return this.writeLine('log', () => `Leads "${event.name}"; token ${event.fencingToken}`);
      case 'demoted':
        return this.writeLine(event.reason === 'lost' ? 'warn' : 'log', () => {
          return `Leads "${event.name}" no longer, after ${round(event.ledMs)} ms: ${event.reason}`;
        });
      case 'asked':
      case 'candidate':
        return;
      default:
        event satisfies never;
    }
  }

  /**
   * Only the first of several calls without an answer is a warning. Each refusal is one, because it is about one key or one
   * command.
   */
  private levelOf(error: unknown): LockLogLevel {
    if (!isStoreError(error)) return 'debug';
    if (error.reason === 'refused') return 'warn';
    this.unanswered += 1;
    return this.unanswered === 1 ? 'warn' : 'debug';
  }

  private onAnswer(): void {
    const count = this.unanswered;
    this.unanswered = 0;
    if (count > 0) this.writeLine('log', () => `The store answers again; calls that got no lock: ${count}`);
  }

  private writeOpened({ store, clientId, client, address }: Opened): void {
    const where = address === undefined ? store : `${store} at ${address}`;
    const { application, host, process: id } = client;
    const who = `client ${clientId}: ${application} on ${host}, process ${id}`;
    this.writeLine('log', () => `Locks are kept in ${where}; this process is ${who}`);
    if (store !== 'memory' || process.env['NODE_ENV'] !== 'production') return;
    this.writeLine('warn', () => {
      return 'NODE_ENV is production, and locks are kept in the memory of this process: other instances are not excluded. Give the module a store, such as redisStore(url).';
    });
  }

  private writeStore({ state }: StoreChanged): void {
    const what = state.node === undefined ? 'The store' : `Node ${state.node} of the store`;
    if (state.isUp) {
      return this.writeLine('log', () => `${what} can be reached again, after ${round(state.afterMs)} ms`);
    }
    const { error } = state;
    this.writeLine('warn', () => `${what} cannot be used: ${error.message}. Trying again until it can be.`);
  }

  // --- gathered events ------------------------------------------------------------------------------------------

  private gather(event: Gathered): void {
    if (!this.shows(levelOfGathered(event))) return;
    const kind = kindOf(event);
    const events = this.gathered.get(kind);
    if (events) events.push(event);
    else this.gathered.set(kind, [event]);
    if (this.isFlushDue) return;
    this.isFlushDue = true;
    queueMicrotask(() => this.flush());
  }

  /** Writes the collected events. If there were any, collects for another second; otherwise stops. */
  private flush(): void {
    const isEmpty = this.gathered.size === 0;
    this.writeGathered();
    this.isFlushDue = !isEmpty;
    if (!isEmpty) this.cancelFlush = this.clock.after(GATHERED_FOR_MS, () => this.flush());
  }

  private writeGathered(): void {
    const groups = [...this.gathered.values()];
    this.gathered.clear();
    for (const events of groups) {
      const [first] = events;
      if (first) this.writeLine(levelOfGathered(first), () => gatheredText(first, events));
    }
  }

  private shows(level: LockLogLevel): boolean {
    return LEVELS.indexOf(level) <= LEVELS.indexOf(this.level);
  }

  private writeLine(level: LockLogLevel, text: () => string): void {
    if (!this.shows(level)) return;
    if (this.gathered.size > 0) this.writeGathered();
    try {
      this.logger[level](escapeUnprintable(text()));
    } catch {
      // Ignore an error of the logger: there is nobody to report it to, and thrown in a microtask it would end the process.
    }
  }
}

/** From the fewest lines to the most. `debug` adds lines for each call. */
export type LockLogLevel = 'error' | 'warn' | 'log' | 'debug';

/** `true` is `'log'`, which writes nothing when a lock is acquired or released. */
export type LockLoggerOption = boolean | LockLogLevel;

type Opened = Extract<LockEvent, { readonly type: 'opened' }>;
type StoreChanged = Extract<LockEvent, { readonly type: 'store' }>;
type Failed = Extract<LockEvent, { readonly type: 'error' }>;
/** The events that an outage may cause for every single lock, so they are collected. */
type Gathered = Extract<LockEvent, { readonly type: 'lost' | 'error' | 'suspended' | 'resumed' }>;

export function isLockLoggerOption(option: unknown): option is LockLoggerOption {
  return typeof option === 'boolean' || LEVELS.includes(option as LockLogLevel);
}

function levelOfGathered(event: Gathered): LockLogLevel {
  // At shutdown the application itself takes the lock from its holder, after `shutdownGraceMs`. That is no error.
  if (event.type === 'lost') return event.error.reason === 'shutdown' ? 'warn' : 'error';
  return event.type === 'resumed' ? 'log' : 'warn';
}

/** Returns the same text for all events that one line can report together. */
function kindOf(event: Gathered): string {
  if (event.type === 'lost') return `lost ${event.error.reason}`;
  return event.type === 'error' ? `error ${event.during} ${causeOf(event)}` : event.type;
}

/** Tells causes of errors apart. All requests that fail in one outage have the same reason; other errors differ by their text. */
function causeOf({ key, error }: Failed): string {
  if (isStoreError(error) && error.reason !== 'refused') return error.reason;
  return key === undefined ? textOf(error) : textOf(error).replaceAll(`"${key}"`, '');
}

function forcedText({ key, holder, by }: Extract<LockEvent, { readonly type: 'forced' }>): string {
  if (by === undefined) return `Took "${key}" by force from ${holder}`;
  return `"${key}" was released by force, by ${by}${holder === undefined ? '' : `; held by ${holder}`}`;
}

/** The text of the line for several events of the same kind, of which `first` is one. */
function gatheredText(first: Gathered, events: readonly Gathered[]): string {
  switch (first.type) {
    case 'lost': {
      const others = keysOf(events, first.key);
      return others === '' ? first.error.message : `${first.error.message} Lost likewise: ${others}.`;
    }
    case 'error': {
      const keys = keysOf(events);
      const times = keys === '' && events.length > 1 ? `, ${events.length} times` : '';
      return `Failed during ${first.during}${keys === '' ? times : ` of ${keys}`}: ${textOf(first.error)}`;
    }
    case 'suspended': {
      const validForMs = round(minOf((events as readonly (typeof first)[]).map((event) => event.validForMs)));
      const until = events.length === 1 ? 'Valid for' : 'The first is valid for';
      return `No answer to the renewal of ${keysOf(events)}: ${textOf(first.error)}. ${until} another ${validForMs} ms; trying again until then.`;
    }
    case 'resumed':
      return `Renewed after all: ${keysOf(events)}`;
  }
}

/** Lists the keys of the events, without `except`, which the line mentions elsewhere. */
function keysOf(events: readonly Gathered[], except?: string): string {
  const keys = new Set(events.map(({ key }) => key));
  keys.delete(except);
  keys.delete(undefined);
  const names = [...keys].slice(0, NAMED).map((key) => `"${key}"`);
  const more = keys.size - names.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}

/** Checks the code and not the class, because an application may load both builds of this package. */
function isStoreError(error: unknown): error is LockStoreError {
  return isLockError(error, 'LOCK_STORE');
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const round = (ms: number): number => Math.round(ms);
