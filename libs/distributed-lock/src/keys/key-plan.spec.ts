import { describe, expect, it } from '@jest/globals';
import { Body, Controller, Param, Post } from '@nestjs/common';
import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { keyPlanOf, type KeySite, newKeySite } from './key-plan.js';
import { KeyTemplate, type Placeholder } from './key-template.js';

@Controller()
class Orders {
  @Post(':shop')
  async create(@Body('sku') _sku: string, @Body('lines') _lines?: object): Promise<void> {}

  async ship(_id: string): Promise<void> {}
}

/** Overrides both methods by handlers with other parameters. */
@Controller()
class Kiosk extends Orders {
  @Post(':shop/:sku')
  override async create(@Param('shop') _shop: string, @Param('sku') _sku?: object): Promise<void> {}

  @Post(':count/:_id')
  override async ship(@Param('count') _count: string, @Param('_id') _id?: string): Promise<void> {}
}

const siteOf = (method: 'create' | 'ship', key: string | ((...args: never[]) => string)): KeySite =>
  newKeySite(
    { target: Orders.prototype, method, original: Orders.prototype[method] },
    { decorator: '@Locked', key: typeof key === 'string' ? [KeyTemplate.compile(key)] : key },
  );
const planOf = (...site: Parameters<typeof siteOf>) => keyPlanOf(Orders, siteOf(...site));

describe('the keys of a method', () => {
  it('are made of its arguments in a plain call', () => {
    expect(planOf('ship', 'order:<_id>').keysOfCall(['a/b'])).toEqual(['order:a%2Fb']);
    expect(planOf('create', 'goods:<sku>').keysOfCall(['x'])).toEqual(['goods:x']);
  });

  it('are refused in a plain call if a placeholder names a part of a request', () => {
    const plan = planOf('create', 'goods:<params.shop>:<sku>');
    expect(() => plan.keysOfCall(['x'])).toThrow(LockKeyError);
  });

  it('that a subclass overrides are made of the arguments of its `super` call', () => {
    expect(keyPlanOf(Kiosk, siteOf('ship', 'order:<_id>')).keysOfCall(['7'])).toEqual(['order:7']);
    expect(keyPlanOf(Kiosk, siteOf('create', 'goods:<sku>')).keysOfCall(['x'])).toEqual(['goods:x']);
    expect(keyPlanOf(Kiosk, siteOf('create', 'goods:<body.sku>')).keysOfCall(['x'])).toEqual(['goods:x']);
  });

  it('follow the arguments of the handler, and take what no argument has from the request', () => {
    const plan = planOf('create', 'goods:<params.shop>:<sku>');
    const [{ placeholders }] = plan.site.key as readonly [KeyTemplate];
    const values = new Map(placeholders.map((p: Placeholder, i) => [p, ['kiosk', 'x'][i]]));
    expect(plan.keysByArguments(['x'], values)).toEqual(['goods:kiosk:x']);
    expect(plan.keysByArguments(['y'], values)).toEqual(['goods:kiosk:y']);
  });

  it('are not made again by a key function that has had the same primitives', () => {
    let calls = 0;
    const plan = planOf('create', (sku: string, lines?: object) => {
      calls += 1;
      return `goods:${sku}:${typeof lines}`;
    });
    expect(plan.keysByArguments(['x', undefined], new Map(['x', undefined].entries()))).toEqual([]);
    expect(calls).toBe(0);
    const lines = {};
    expect(plan.keysByArguments(['x', lines], new Map(['x', lines].entries()))).toHaveLength(1);
    expect(plan.keysByArguments(['y', undefined], new Map([[0, 'x']]))).toEqual(['goods:y:undefined']);
    expect(calls).toBe(2);
  });

  it('cannot be made by a key function that returns an empty list or no key', () => {
    const keysOf = (keys: unknown) => () => planOf('create', (() => keys) as () => string).keysOfCall([]);
    expect(keysOf([])).toThrow(LockKeyError);
    expect(keysOf([])).toThrow('gave an empty list, which locks nothing.');
    expect(keysOf(7)).toThrow('gave no string and no list.');
  });

  it('are planned once for each class and decorator', () => {
    const site = siteOf('ship', 'order:<_id>');
    expect(keyPlanOf(Orders, site)).toBe(keyPlanOf(Orders, site));
    expect(keyPlanOf(class extends Orders {}, site)).not.toBe(keyPlanOf(Orders, site));
  });

  it('cannot be planned with a name that the method does not have', () => {
    const wrong = () => planOf('ship', 'order:<number>');
    expect(wrong).toThrow(LockConfigurationError);
    expect(wrong).toThrow(
      `unknown <number> in "order:<number>" at position 6; the method's arguments are: _id`,
    );
  });
});
