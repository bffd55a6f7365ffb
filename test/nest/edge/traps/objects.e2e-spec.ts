import { describe, expect, it, jest } from '@jest/globals';
import { Injectable, Module, Scope, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { LazyModuleLoader, ModuleRef } from '@nestjs/core';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';
import { fresh } from './fresh.js';

const METHOD = Symbol('method');

@Injectable()
class Shop {
  @Locked('held:<id>')
  async held(id: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return id && lock?.key;
  }

  @Locked('symbol')
  async [METHOD](@CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock?.key;
  }

  @Locked('static:<id>')
  static async shared(id: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return id && lock?.key;
  }
}

describe('objects and their methods', () => {
  it('are locked while the application boots, and while it ends', async () => {
    @Injectable()
    class Living extends Shop implements OnModuleInit, OnModuleDestroy {
      readonly keys: unknown[] = [];

      async onModuleInit(): Promise<void> {
        this.keys.push(await this.held('init'));
      }

      async onModuleDestroy(): Promise<void> {
        this.keys.push(await this.held('end'));
      }
    }
    const { app } = await fresh({ providers: [Living] });
    const living = app.get(Living);
    await app.close();
    expect(living.keys).toEqual(['held:init', 'held:end']);
  });

  it('are locked under a symbol for a name', async () => {
    const { app } = await fresh({ providers: [Shop] });
    expect(await app.get(Shop)[METHOD]()).toBe('symbol');
  });

  it('are locked when they are static', async () => {
    await fresh({});
    expect(await Shop.shared('1')).toBe('static:1');
  });

  it('are locked when a method is taken off its object', async () => {
    const { app } = await fresh({ providers: [Shop] });
    const held = Reflect.get(app.get(Shop), 'held') as (id: string) => Promise<string | undefined>;
    expect(await held('2')).toBe('held:2');
    expect(await held.call(app.get(Shop), '3')).toBe('held:3');
  });

  it('keep their lock under a spy of a test', async () => {
    const { app } = await fresh({ providers: [Shop] });
    const spy = jest.spyOn(app.get(Shop), 'held');
    expect(await app.get(Shop).held('spied')).toBe('held:spied');
    expect(spy).toHaveBeenCalledWith('spied');
  });

  it('are locked when each request, or each that injects them, has one of its own', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class OfRequest extends Shop {}
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient extends Shop {}
    const { app } = await fresh({ providers: [OfRequest, Transient] });
    expect(await (await app.resolve(OfRequest)).held('1')).toBe('held:1');
    expect(await (await app.resolve(Transient)).held('2')).toBe('held:2');
  });

  it('are locked when Nest builds them later: by ModuleRef.create, and in lazy modules', async () => {
    @Module({ providers: [Shop] })
    class LateModule {}
    const { app } = await fresh({});
    const created = await app.get(ModuleRef).create(Shop);
    expect(await created.held('1')).toBe('held:1');
    const module = await app.get(LazyModuleLoader).load(() => LateModule);
    expect(await module.get(Shop).held('2')).toBe('held:2');
  });

  it('keep name and length of the method, and what other decorators have left on it', async () => {
    const method = Reflect.get(Shop.prototype, 'held') as (...args: unknown[]) => unknown;
    expect([method.name, method.length]).toEqual(['held', 2]);
  });

  it('are refused when the class is loaded where the decorator stands on no method', () => {
    const decorate = Locked('a') as MethodDecorator;
    class Target {
      get value(): number {
        return 1;
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Target.prototype, 'value');
    expect(() => decorate(Target.prototype, 'value', descriptor as PropertyDescriptor)).toThrow(
      '@Locked on Target.value: this is not a method.',
    );
  });
});
