import type { Clock } from '../../common/clock.js';
import { MAX_TEXT } from './lock-options.js';

/** How many lines of the stack to record: `CallSite.record` itself, the method that calls it, and the code that calls that method. */
const FRAMES = 3;
const FRAME = /^\s*at (?:async )?(?:(?<caller>[^(]+) \()?(?:.*[\\/])?(?<file>[^\\/]+:\d+):\d+\)?$/;
const NAMELESS = /^(Object\.|Module\.)?<anonymous>$/;

/** The line of code from which a call without the option `site` comes. */
export class CallSite {
  /** Stands for the line of each `acquire` call whose stack was not recorded, to save time. */
  static readonly UNNOTED = new CallSite(undefined, 'acquire');
  private text: string | undefined;

  /** @param trace a stack trace whose last line is the call */
  private constructor(
    private readonly trace: Error | undefined,
    private readonly method: string,
  ) {}

  /**
   * Records the line of code that called `method`, for people who look for a lock that is never released, or who want to know who
   * released a lock by force. `method` itself must call this.
   */
  static record(method: 'acquire' | 'attach' | 'forceRelease'): CallSite {
    const { stackTraceLimit } = Error;
    Reflect.set(Error, 'stackTraceLimit', FRAMES);
    const trace = new Error();
    Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
    return new CallSite(trace, method);
  }

  /** A site as text for people: the option `site` of the call, or the recorded line. */
  static textOf(site: string | CallSite | undefined): string | undefined {
    return typeof site === 'object' ? site.line : site;
  }

  /** How messages name a call: by its site. */
  static callText(site: string | CallSite | undefined): string {
    return CallSite.textOf(site) ?? 'a call without a name (option site)';
  }

  get isNoted(): boolean {
    return this.trace !== undefined;
  }

  /**
   * The line as text for people: `acquire() in GoodsService.buy, goods.service.ts:42`; `acquire()` if Node gives no stack; `undefined` if
   * no stack was recorded. Node formats a stack only when it is first read, so this is done only when somebody asks.
   */
  get line(): string | undefined {
    return this.trace && (this.text ??= lineOf(this.method, stackOf(this.trace)));
  }
}

/**
 * The stack of at most this many `acquire` calls is recorded in each `WINDOW_MS`. Each takes about 2 µs, so together they take 0.2 % of a
 * core.
 */
const MAX_NOTES = 100;
const WINDOW_MS = 100;

/** Decides which calls of `acquire` record their stack: the first `MAX_NOTES` of each window of `WINDOW_MS`. */
export class CallSiteBudget {
  private notes = 0;
  private windowEnd = 0;

  constructor(private readonly clock: Clock) {}

  mayNote(): boolean {
    if (this.notes === MAX_NOTES && this.clock.now() >= this.windowEnd) this.notes = 0;
    if (this.notes === MAX_NOTES) return false;
    if (this.notes === 0) this.windowEnd = this.clock.now() + WINDOW_MS;
    this.notes += 1;
    return true;
  }
}

/**
 * Reads the stack of an error. Returns an empty text if `Error.prepareStackTrace` of the application throws or makes something else of it.
 */
function stackOf(trace: Error): string {
  try {
    const stack: unknown = trace.stack;
    return typeof stack === 'string' ? stack : '';
  } catch {
    return '';
  }
}

function lineOf(method: string, stack: string): string {
  const frames = stack.split('\n').filter((line) => /^\s*at /.test(line));
  const { caller, file } = FRAME.exec(frames[FRAMES - 1] ?? '')?.groups ?? {};
  if (file === undefined) return `${method}()`;
  const where = caller === undefined || NAMELESS.test(caller) ? 'at' : `in ${caller},`;
  return `${method}() ${where} ${file}`.slice(0, MAX_TEXT);
}
