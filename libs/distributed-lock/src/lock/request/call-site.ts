import type { Clock } from '../../common/clock.js';
import { MAX_TEXT } from './lock-options.js';

/** How many lines of the stack to record: `callSite` itself, the method that calls it, and the line that called that method. */
const FRAMES = 3;
const FRAME = /^\s*at (?:async )?(?:(?<caller>[^(]+) \()?(?:.*[\\/])?(?<file>[^\\/]+:\d+):\d+\)?$/;
const NAMELESS = /^(Object\.|Module\.)?<anonymous>$/;

/**
 * Records the line of code that called `method`. For people who look for a lock that is never released, or for who has released it.
 * Call this from the method itself.
 */
export function callSite(method: 'acquire' | 'forceRelease' = 'acquire'): CallSite {
  const { stackTraceLimit } = Error;
  Reflect.set(Error, 'stackTraceLimit', FRAMES);
  const trace = new Error();
  Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  return new CallSite(trace, method);
}

/** Where a call without the option `site` comes from. */
export class CallSite {
  private text: string | undefined;

  /** @param trace a stack trace whose last line is the call; absent if the line was not noted */
  constructor(
    private readonly trace: Error | undefined,
    private readonly method: string,
  ) {}

  get isNoted(): boolean {
    return this.trace !== undefined;
  }

  /**
   * The line as people read it: `acquire() in GoodsService.buy, goods.service.ts:42`; `acquire()` if Node gives no stack; `undefined`
   * if the line was not noted. Node builds the text of the stack only when it is read.
   */
  get line(): string | undefined {
    return this.trace && (this.text ??= lineOf(this.method, stackOf(this.trace)));
  }
}

/** The site of an `acquire` whose line was not noted. */
export const UNNOTED = new CallSite(undefined, 'acquire');

/** Noting a line takes about 2 µs, so this many in each window take 0.2 % of a core. */
const MAX_NOTES = 100;
const WINDOW_MS = 100;

/** Decides which calls of `acquire` note their line: the first `MAX_NOTES` of each window. */
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

/** A site as people read it: the text of the caller, or the noted line. */
export function siteText(site: string | CallSite | undefined): string | undefined {
  return typeof site === 'object' ? site.line : site;
}

/** The stack as a text; empty if an `Error.prepareStackTrace` of the application turns it into something else, or throws. */
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
