import { describe, expect, it } from '@jest/globals';
import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { catchError, defer, lastValueFrom, map, of } from 'rxjs';
import { LockNotHeldError } from '../port/lock.errors.js';
import { currentFlow } from '../lock/core/async-context.js';
import { ExpectedNestCall, LockedHandlerRun, type HandlerRequest } from './handler-run.js';
import type { LockedSite, LockPlan } from './lock-plan.js';

const siteOf = (method: string): LockedSite => ({ method }) as LockedSite;
const nothing = (): void => undefined;
const callOf = (site: LockedSite): HandlerRequest => ({
  plan: { site, covers: () => true, isFree: () => true } as unknown as LockPlan,
  context: { getType: () => 'http' } as unknown as ExecutionContext,
});

function reachableFrom(root: unknown, found = new Set<unknown>()): ReadonlySet<unknown> {
  if (typeof root !== 'object' || root === null || found.has(root)) return found;
  found.add(root);
  for (const value of Object.values(root)) reachableFrom(value, found);
  return found;
}

describe('a run of a handler', () => {
  it('covers the call behind the last interceptor, until it has its result, and nothing else', async () => {
    const site = siteOf('a');
    const handlerRun = new LockedHandlerRun(callOf(site));
    const covers = (): boolean => ExpectedNestCall.of(site, []) !== undefined;
    const seen: boolean[] = [];
    const next: CallHandler = {
      handle: () =>
        defer(async () => {
          seen.push(covers(), ExpectedNestCall.of(siteOf('a'), []) !== undefined);
          const result = await ExpectedNestCall.of(site, [])?.run(async () => covers());
          return [result, covers()];
        }),
    };
    seen.push(handlerRun.enter(covers));
    const result = await lastValueFrom(handlerRun.toHandler(next).pipe(map((it) => [it, covers()])));
    expect(seen).toEqual([false, true, false]);
    expect(result).toEqual([[false, false], false]);
    expect(covers()).toBe(false);
  });

  it('covers another try after an error, and no more once the error has gone out', async () => {
    const site = siteOf('a');
    const handlerRun = new LockedHandlerRun(callOf(site));
    const fail = async (): Promise<never> => {
      throw new Error('once more');
    };
    const next: CallHandler = {
      handle: () =>
        defer(async () => {
          await Promise.resolve(ExpectedNestCall.of(site, [])?.run(fail)).catch(() => undefined);
          return ExpectedNestCall.of(site, [])?.run(fail);
        }),
    };
    const after = handlerRun.toHandler(next).pipe(catchError(() => of(ExpectedNestCall.of(site, []))));
    expect(await lastValueFrom(after)).toBeUndefined();
  });

  it('is not seen by the handler, which holds the lock until its promise has settled', async () => {
    const log: string[] = [];
    const underLock = {
      addPart: () => {
        log.push('started');
        return () => log.push('ended');
      },
      streams: () => undefined,
      hold: (it: unknown) => it,
    };
    const handlerRun = new LockedHandlerRun(callOf(siteOf('a')), underLock);
    const result = handlerRun.enter(() =>
      new ExpectedNestCall(handlerRun).run(async () => currentFlow()?.handlerRun),
    );
    handlerRun.close();
    expect(log).toEqual(['started']);
    expect(await result).toBeUndefined();
    expect(log).toEqual(['started', 'ended']);
  });

  it('asks a lazy thenable for its value only once', async () => {
    let asked = 0;
    // oxlint-disable-next-line unicorn/no-thenable -- query builders are such
    const lazy = { then: (resolve: (value: string) => void) => resolve(`asked ${(asked += 1)}`) };
    const handlerRun = new LockedHandlerRun(callOf(siteOf('a')));
    const result = new ExpectedNestCall(handlerRun).run(() => lazy);
    expect([await result, await result]).toEqual(['asked 1', 'asked 1']);
  });

  it('does not lead to its request once it is closed', () => {
    const call = callOf(siteOf('a'));
    const { context } = call;
    const underLock = {
      context,
      addPart: () => nothing,
      streams: () => undefined,
      hold: (it: unknown) => it,
    };
    const handlerRun = new LockedHandlerRun(call, underLock);
    expect(reachableFrom(handlerRun)).toContain(context);
    handlerRun.close();
    expect(reachableFrom(handlerRun)).not.toContain(context);
  });

  it('starts no handler once it is closed', async () => {
    const handlerRun = new LockedHandlerRun(callOf(siteOf('a')));
    handlerRun.close();
    await expect(new ExpectedNestCall(handlerRun).run(() => 'ran')).rejects.toThrow(LockNotHeldError);
  });
});
