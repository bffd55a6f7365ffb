import { describe, expect, it } from '@jest/globals';
import type { ExecutionContext } from '@nestjs/common';
import { LockNotHeldError } from '../lock/lock.errors.js';
import { Activation } from './activation.js';
import type { LockedSite } from './locked-site.js';

class Handlers {}
const contextOf = (cls: unknown): ExecutionContext => ({ getClass: () => cls }) as ExecutionContext;
const siteOf = (method: string): LockedSite => ({ method }) as LockedSite;

function reachableFrom(root: unknown, found = new Set<unknown>()): ReadonlySet<unknown> {
  if (typeof root !== 'object' || root === null || found.has(root)) return found;
  found.add(root);
  for (const value of Object.values(root)) reachableFrom(value, found);
  return found;
}

describe('an activation', () => {
  it('covers its own method on one object of its class, and nothing else', () => {
    const [site, one] = [siteOf('a'), new Handlers()];
    new Activation(site, contextOf(Handlers), undefined).enter(() => {
      expect(Activation.covering(siteOf('a'), one)).toBeUndefined();
      expect(Activation.covering(site, {})).toBeUndefined();
      expect(Activation.covering(site, one)).toBeDefined();
      expect(Activation.covering(site, new Handlers())).toBeUndefined();
    });
    expect(Activation.covering(site, one)).toBeUndefined();
  });

  it('is not seen by the handler, and runs until its promise has settled', async () => {
    const [site, one] = [siteOf('a'), new Handlers()];
    const activation = new Activation(site, contextOf(Handlers), undefined);
    const result = activation.enter(() => activation.run(async () => Activation.covering(site, one)));
    expect(activation.isRunning).toBe(true);
    expect(await result).toBeUndefined();
    expect(activation.isRunning).toBe(false);
  });

  it('asks a lazy thenable for its value only once', async () => {
    let asked = 0;
    // oxlint-disable-next-line unicorn/no-thenable -- query builders are such
    const lazy = { then: (resolve: (value: string) => void) => resolve(`asked ${(asked += 1)}`) };
    const activation = new Activation(siteOf('a'), contextOf(Handlers), undefined);
    const result = activation.run(() => lazy);
    expect([await result, await result]).toEqual(['asked 1', 'asked 1']);
  });

  it('does not lead to its request once it is closed', () => {
    const context = contextOf(Handlers);
    const holder = { context, releaseIfDone: () => undefined, streams: () => undefined };
    const activation = new Activation(siteOf('a'), context, undefined, holder);
    expect(reachableFrom(activation)).toContain(context);
    activation.close();
    expect(reachableFrom(activation)).not.toContain(context);
  });

  it('starts no handler once it is closed', async () => {
    const activation = new Activation(siteOf('a'), contextOf(Handlers), undefined);
    activation.close();
    await expect(activation.run(() => 'ran')).rejects.toThrow(LockNotHeldError);
  });
});
