import { MAX_TEXT } from './this-process.js';

/** `callSite` itself, the method that calls it, and the line that has called that method. */
const FRAMES = 3;
const FRAME = /^\s*at (?:async )?(?:(?<caller>[^(]+) \()?(?:.*[\\/])?(?<file>[^\\/]+:\d+):\d+\)?$/;
const NAMELESS = /^(Object\.|Module\.)?<anonymous>$/;

/**
 * Notes the line of code that has called `method`, for people who look for a lock that is never released, or for who has
 * released it. To be called by that method itself.
 */
export function callSite(method: 'acquire' | 'forceRelease' = 'acquire'): CallSite {
  const { stackTraceLimit } = Error;
  Reflect.set(Error, 'stackTraceLimit', FRAMES);
  const trace = new Error();
  Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  return new CallSite(trace, method);
}

/** A line of code. Node makes its text when it is read. */
export class CallSite {
  private text: string | undefined;

  constructor(
    private readonly trace: Error,
    private readonly method: string,
  ) {}

  /** As in `acquire() in GoodsService.buy, goods.service.ts:42`; `acquire()` where Node tells no stack. */
  toString(): string {
    return (this.text ??= lineOf(this.method, this.trace.stack));
  }
}

function lineOf(method: string, stack = ''): string {
  const frames = stack.split('\n').filter((line) => /^\s*at /.test(line));
  const { caller, file } = FRAME.exec(frames[FRAMES - 1] ?? '')?.groups ?? {};
  if (file === undefined) return `${method}()`;
  const where = caller === undefined || NAMELESS.test(caller) ? 'at' : `in ${caller},`;
  return `${method}() ${where} ${file}`.slice(0, MAX_TEXT);
}
