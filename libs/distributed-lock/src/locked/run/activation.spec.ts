import { describe, expect, it } from '@jest/globals';
import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { catchError, defer, lastValueFrom, map, of } from 'rxjs';
import { LockNotHeldError } from '../../port/lock.errors.js';
import { activationOfFlow } from '../../lock/context/async-context.js';
import { Activation, type LockedCall } from './activation.js';
import { HandlerCall, toHandler } from './handler-call.js';
import type { KeyPlan } from '../keys/key-plan.js';
import type { LockedSite } from '../declaration/locked-site.js';

const siteOf = (method: string): LockedSite => ({ method }) as LockedSite;
const callOf = (site: LockedSite): LockedCall => ({
  site,
  plan: {
    fits: () => true,
    isFree: () => true,
    partsOf: () => new Map(),
    assertKeyOf: () => undefined,
  } as unknown as KeyPlan,
  context: {} as ExecutionContext,
});

function reachableFrom(root: unknown, found = new Set<unknown>()): ReadonlySet<unknown> {
  if (typeof root !== 'object' || root === null || found.has(root)) return found;
  found.add(root);
  for (const value of Object.values(root)) reachableFrom(value, found);
  return found;
}

describe('an activation', () => {
  it('covers the call behind the last interceptor, until it has its result, and nothing else', async () => {
    const site = siteOf('a');
    const activation = new Activation(callOf(site), undefined);
    const covers = (): boolean => HandlerCall.of(site, []) !== undefined;
    const seen: boolean[] = [];
    const next: CallHandler = {
      handle: () =>
        defer(async () => {
          seen.push(covers(), HandlerCall.of(siteOf('a'), []) !== undefined);
          const result = await HandlerCall.of(site, [])?.run(async () => covers(), []);
          return [result, covers()];
        }),
    };
    seen.push(activation.enter(covers));
    const result = await lastValueFrom(toHandler(activation, next).pipe(map((it) => [it, covers()])));
    expect(seen).toEqual([false, true, false]);
    expect(result).toEqual([[false, false], false]);
    expect(covers()).toBe(false);
  });

  it('covers another try after an error, and no more once the error has gone out', async () => {
    const site = siteOf('a');
    const activation = new Activation(callOf(site), undefined);
    const fail = async (): Promise<never> => {
      throw new Error('once more');
    };
    const next: CallHandler = {
      handle: () =>
        defer(async () => {
          await Promise.resolve(HandlerCall.of(site, [])?.run(fail, [])).catch(() => undefined);
          return HandlerCall.of(site, [])?.run(fail, []);
        }),
    };
    const after = toHandler(activation, next).pipe(catchError(() => of(HandlerCall.of(site, []))));
    expect(await lastValueFrom(after)).toBeUndefined();
  });

  it('is not seen by the handler, and runs until its promise has settled', async () => {
    const activation = new Activation(callOf(siteOf('a')), undefined);
    const result = activation.enter(() => activation.run(async () => activationOfFlow(), []));
    expect(activation.isRunning).toBe(true);
    expect(await result).toBeUndefined();
    expect(activation.isRunning).toBe(false);
  });

  it('asks a lazy thenable for its value only once', async () => {
    let asked = 0;
    // oxlint-disable-next-line unicorn/no-thenable -- query builders are such
    const lazy = { then: (resolve: (value: string) => void) => resolve(`asked ${(asked += 1)}`) };
    const activation = new Activation(callOf(siteOf('a')), undefined);
    const result = activation.run(() => lazy, []);
    expect([await result, await result]).toEqual(['asked 1', 'asked 1']);
  });

  it('does not lead to its request once it is closed', () => {
    const call = callOf(siteOf('a'));
    const { context } = call;
    const holder = {
      context,
      releaseIfDone: () => undefined,
      streams: () => undefined,
      hold: (it: unknown) => it,
    };
    const activation = new Activation(call, undefined, holder);
    expect(reachableFrom(activation)).toContain(context);
    activation.close();
    expect(reachableFrom(activation)).not.toContain(context);
  });

  it('starts no handler once it is closed', async () => {
    const activation = new Activation(callOf(siteOf('a')), undefined);
    activation.close();
    await expect(activation.run(() => 'ran', [])).rejects.toThrow(LockNotHeldError);
  });
});
