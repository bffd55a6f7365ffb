import { describe, expect, it, jest } from '@jest/globals';
import { Inject } from '@nestjs/common';
import { Args, Context, Query, Resolver, Subscription } from '@nestjs/graphql';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { until } from '#until';
import { warningsDuring } from '../../../support/warnings.js';
import { SERVERS, ask, startGraphql } from './graphql.js';

// The first test of each server loads its packages, which takes seconds.
jest.setTimeout(30_000);

/** One more than Node lets listen to an emitter before it warns of a leak. */
const FIELDS = 11;
let together = 0;

describe.each(Object.keys(SERVERS) as (keyof typeof SERVERS)[])('GraphQL of %s', (server) => {
  @Resolver()
  class Handlers {
    constructor(@Inject(LockService) private readonly locks: LockService) {}

    @Query(() => String)
    @Locked(['a:<args.id>', 'b:<id>'])
    async both(@Args('id') _id: string): Promise<string> {
      return String(this.locks.current()?.keys);
    }

    @Query(() => String)
    @Locked((context: { req: { url: string } }, id: string) => `${typeof context.req}:${id}`)
    async context(
      @Context() _context: { req: { url: string } },
      @Args('id') _id: string,
    ): Promise<string | undefined> {
      return this.locks.current()?.key;
    }

    @Query(() => String)
    @Locked('together:<id>')
    async together(@Args('id') id: string): Promise<string> {
      together += 1;
      await until(() => together === FIELDS);
      return id;
    }

    @Query(() => String)
    @Locked('wait')
    async wait(): Promise<string> {
      return 'done';
    }
  }

  it('keys come from arguments by source and by name, and a key function gets the context', async () => {
    const { call, close } = await startGraphql(Handlers, server);
    expect(await call('both', '1')).toEqual({ value: 'a:1,b:1' });
    expect(await call('context', '2')).toEqual({ value: 'object:2' });
    await close();
  });

  it('eleven locked fields of one query run together, and Node warns of no leak of listeners', async () => {
    together = 0;
    const { url, close } = await startGraphql(Handlers, server);
    const fields = Array.from({ length: FIELDS }, (_, n) => `field${n}: together(id: "${n}")`);
    const warnings = await warningsDuring(async () => {
      const answer = (await (await ask(url, `{ ${fields.join(' ')} }`)).json()) as { data: object };
      expect(Object.values(answer.data)).toEqual(fields.map((_, n) => String(n)));
    });
    expect(warnings).toEqual([]);
    await close();
  });

  it('a client that leaves while it waits leaves the queue', async () => {
    const { url, locks, close } = await startGraphql(Handlers, server);
    const ended: string[] = [];
    const mine = await locks.acquire('wait');
    locks.events$.subscribe(({ type }) => ended.push(type));
    const client = new AbortController();
    const answer = ask(url, '{ wait }', client.signal).catch(() => 'left');
    await until(() => ended.includes('asked'));
    client.abort();
    expect(await answer).toBe('left');
    await until(() => ended.includes('abandoned'));
    expect(await mine.release()).toBe('released');
    await close();
  });

  it('a subscription under @Locked stops the boot, since its events come after the release', async () => {
    @Resolver()
    class Ticks {
      @Query(() => String)
      nothing(): string {
        return '';
      }

      @Subscription(() => String)
      @Locked('ticks')
      async ticks(): Promise<AsyncIterator<unknown>> {
        return (async function* events() {})();
      }
    }
    await expect(startGraphql(Ticks, server)).rejects.toThrow(
      '@Locked on Ticks.ticks: a subscription goes on when its resolver has returned and its lock is released',
    );
  });
});
