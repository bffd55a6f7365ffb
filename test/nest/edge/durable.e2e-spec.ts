import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Param, Scope, type PipeTransform } from '@nestjs/common';
import {
  ContextIdFactory,
  REQUEST,
  createContextId,
  type ContextId,
  type ContextIdStrategy,
  type HostComponentInfo,
} from '@nestjs/core';
import { CurrentLock, LockService, Locked, type Lock } from 'nestjs-distributed-lock';
import { startApp, type StartedApp } from '../integration/stage.js';
import { until } from '#until';

interface Tenant {
  readonly tenant: string;
}

/** One tree of providers for each tenant, as the documentation of Nest has it. */
class ByTenant implements ContextIdStrategy {
  private readonly trees = new Map<string, ContextId>();

  attach(contextId: ContextId, { headers }: { readonly headers: Readonly<Record<string, string>> }) {
    const tenant = headers['x-tenant'] ?? 'nobody';
    const tree = this.trees.get(tenant) ?? createContextId();
    this.trees.set(tenant, tree);
    return {
      resolve: (info: HostComponentInfo) => (info.isTreeDurable ? tree : contextId),
      payload: { tenant },
    };
  }
}

/** Tenants whose trees were built. */
const built: string[] = [];

@Injectable({ scope: Scope.REQUEST, durable: true })
class Orders {
  constructor(@Inject(REQUEST) private readonly request: Tenant) {
    built.push(request.tenant);
  }

  @Locked('order:<id>', { waitMs: 0 })
  async pay(id: string, @CurrentLock() lock?: Lock): Promise<string> {
    return `${this.request.tenant} under ${lock?.key} ${id}`;
  }
}

@Injectable({ scope: Scope.REQUEST, durable: true })
class OfTenant implements PipeTransform<string, string> {
  constructor(@Inject(REQUEST) private readonly request: Tenant) {
    built.push(`pipe of ${request.tenant}`);
  }

  transform(value: string): string {
    return `${this.request.tenant}-${value}`;
  }
}

@Controller()
class Handlers {
  constructor(
    private readonly orders: Orders,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  @Get('provider/:id')
  provider(@Param('id') id: string): Promise<string> {
    return this.orders.pay(id);
  }

  @Get('handler/:id')
  @Locked('handler:<id>', { waitMs: 0 })
  async handler(@Param('id') id: string): Promise<string> {
    return `${await this.orders.pay(id)} inside ${this.locks.current()?.key}`;
  }

  @Get('piped/:id')
  @Locked('piped:<id>')
  async piped(@Param('id', OfTenant) id: string, @CurrentLock() lock: Lock): Promise<string> {
    return `${id} under ${lock.key}`;
  }
}

describe('durable providers', () => {
  let started: StartedApp;
  const ask = async (path: string, tenant: string): Promise<string> =>
    (await started.fetch(path, { headers: { 'x-tenant': tenant } })).text();

  beforeAll(async () => {
    ContextIdFactory.apply(new ByTenant());
    started = await startApp('express', { controllers: [Handlers], providers: [Orders] });
  });
  afterAll(async () => {
    Reflect.set(ContextIdFactory, 'strategy', undefined);
    await started.app.close();
  });

  it('are locked, and are built once for each tenant as without a lock', async () => {
    expect(await ask('/provider/1', 'red')).toBe('red under order:1 1');
    expect(await ask('/provider/2', 'red')).toBe('red under order:2 2');
    expect(await ask('/provider/1', 'blue')).toBe('blue under order:1 1');
    expect(built.filter((what) => !what.startsWith('pipe'))).toEqual(['red', 'blue']);
  });

  it('of two tenants share the locks of the application', async () => {
    await started.locks.withLock('order:7', async () => {
      const answers = await Promise.all(
        ['red', 'blue'].map((tenant) => started.fetch('/provider/7', { headers: { 'x-tenant': tenant } })),
      );
      expect(answers.map(({ status }) => status)).toEqual([423, 423]);
    });
  });

  it('are reached from a locked handler, which gives its lock back', async () => {
    expect(await ask('/handler/3', 'red')).toBe('red under order:3 3 inside handler:3');
    await until(async () => (await started.locks.inspect('handler:3')) === null);
  });

  it('as pipes make the key as they make the argument, each for its tenant', async () => {
    expect(await ask('/piped/1', 'red')).toBe('red-1 under piped:red-1');
    expect(await ask('/piped/1', 'blue')).toBe('blue-1 under piped:blue-1');
    expect(await ask('/piped/2', 'blue')).toBe('blue-2 under piped:blue-2');
    expect(built.filter((what) => what.startsWith('pipe')).sort()).toEqual(['pipe of blue', 'pipe of red']);
  });
});
