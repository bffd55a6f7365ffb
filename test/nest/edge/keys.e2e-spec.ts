import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import {
  All,
  Body,
  Controller,
  createParamDecorator,
  Headers,
  Inject,
  Injectable,
  Logger,
  Param,
  Post,
  Query,
} from '@nestjs/common';
import fc from 'fast-check';
import {
  CurrentLock,
  type KeyValue,
  type Lock,
  Locked,
  lockKey,
  LockKeyError,
  LockService,
} from 'nestjs-distributed-lock';
import { ADAPTERS, startApp, type StartedApp } from '../integration/stage.js';
import { fresh } from './traps/fresh.js';

/** What has broken keys elsewhere: separators, parts of templates, escapes, names that objects have already. */
const NASTY = [
  ...Array.from(':-._~%<>{}[]|/\\"\'?#&=+ ,;@!$*()^`\n\t\0'),
  ...'%3A %253A <id> {id} $& ${id} __proto__ constructor toString length undefined null NaN'.split(' '),
  ...'é e\u0301 锁 🔒 \u202e \ufeff a 0 00'.split(' '),
  '[object Object]',
];

const text = fc.oneof(
  fc.string({ unit: fc.constantFrom(...NASTY), maxLength: 6 }),
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constantFrom('x'.repeat(400), '\ud800', 'a\udfff'),
);

/** Anything that JSON can carry in the place of an id. */
const anything = fc.oneof(
  { weight: 3, arbitrary: text },
  fc.jsonValue({ maxDepth: 2 }),
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.array(text, { maxLength: 2 }),
  fc
    .constantFrom('{"__proto__":{"id":"7"}}', '{"constructor":{"id":"7"}}')
    .map((json) => JSON.parse(json) as unknown),
);

/** The key that the contract demands, or `undefined` for "refused". */
function expected(...values: unknown[]): string | undefined {
  try {
    const [a, b, c] = values as [KeyValue, KeyValue, KeyValue];
    const key = lockKey`k:${a}:${b}:${c}`;
    return key.length > 1024 ? undefined : key;
  } catch (error) {
    if (error instanceof LockKeyError) return undefined;
    throw error;
  }
}

/** Reads a key back into the texts of its values; the counterpart of the published alphabet. */
function valuesOf(key: string): readonly string[] {
  return key.split(':').slice(1).map(decodeURIComponent);
}

@Injectable()
class Shop {
  @Locked('k:<0>:<1>:<2>')
  async keyOf(
    _a: KeyValue,
    _b: KeyValue,
    _c: KeyValue,
    @CurrentLock() lock?: Lock,
  ): Promise<string | undefined> {
    return lock?.key;
  }
}

@Controller()
class Handlers {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  @Post('plain/:a')
  @Locked('k:<a>:<params.a>:<query.q>')
  async plain(@Param('a') _a: string): Promise<unknown> {
    return this.locks.current()?.keys;
  }

  @Post('body')
  @Locked('k:<body.user.id>:<name>:<query.q>')
  async body(@Body('name') _name: unknown, @Query('q') _q: unknown): Promise<unknown> {
    return this.locks.current()?.keys;
  }

  @Post('list')
  @Locked('k:<body.tenant>:<body.items[].sku>:<body.items.length>')
  async list(): Promise<unknown> {
    return this.locks.current()?.keys;
  }
}

describe.each(ADAPTERS)('keys that come with requests of %s', (adapter) => {
  let started: StartedApp;

  beforeAll(async () => {
    started = await startApp(adapter, { controllers: [Handlers], providers: [Shop] });
  });
  afterAll(() => started.app.close());

  /** The keys, or the status of the refusal: Fastify refuses some bodies before us. */
  const post = async (path: string, body: unknown): Promise<unknown> => {
    const headers = { 'content-type': 'application/json' };
    const answer = await started.fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
    return answer.status === 201 ? answer.json() : answer.status;
  };
  const wanted = (...keys: (string | undefined)[]): unknown =>
    keys.includes(undefined) ? 400 : [...new Set(keys)];

  it('whatever stands in path and query, the key carries exactly that, and nothing else', async () => {
    const sent = text.filter((it) => !/\p{Surrogate}/u.test(it) && !/^\.{0,2}$/.test(it) && it.length < 50);
    const property = fc.asyncProperty(sent, sent, async (a, q) => {
      const keys = await post(`/plain/${encodeURIComponent(a)}?q=${encodeURIComponent(q)}`, {});
      expect(keys).toEqual(wanted(expected(a, a, q)));
      expect(valuesOf((keys as string[])[0] as string)).toEqual([a, a, q]);
    });
    await fc.assert(property, { numRuns: 50 });
  });

  it('whatever stands in the body, the key carries it or the request is refused', async () => {
    const property = fc.asyncProperty(anything, anything, async (id, name) => {
      const body = JSON.parse(JSON.stringify({ user: { id }, name })) as {
        user: { id: unknown };
        name: unknown;
      };
      expect(await post('/body?q=1', body)).toEqual(wanted(expected(body.user.id, body.name, '1')));
    });
    await fc.assert(property, { numRuns: 50 });
  });

  it('a list gives the keys of its elements, or the request is refused', async () => {
    const property = fc.asyncProperty(text, fc.array(anything, { maxLength: 4 }), async (tenant, skus) => {
      const body = JSON.parse(JSON.stringify({ tenant, items: skus.map((sku) => ({ sku })) })) as {
        items: { sku: unknown }[];
      };
      const keys = body.items.map(({ sku }) => expected(tenant, sku, body.items.length));
      expect(await post('/list', body)).toEqual(keys.length === 0 ? 400 : wanted(...keys));
    });
    await fc.assert(property, { numRuns: 40 });
  });

  it.each([
    ['a body without the property', '/body?q=1', { name: 'n' }],
    ['a body that is a list', '/body?q=1', [{ user: { id: '1' }, name: 'n' }]],
    ['a value that only a prototype has', '/body?q=1', { name: 'n', user: 'text' }],
    ['a query that is given twice', '/body?q=1&q=2', { user: { id: '1' }, name: 'n' }],
    ['a query that is not given', '/body', { user: { id: '1' }, name: 'n' }],
    ['a value of a million characters', '/body?q=1', { user: { id: 'x'.repeat(50_000) }, name: 'n' }],
    ['a list that is an object', '/list', { tenant: 't', items: { length: 1, 0: { sku: 'a' } } }],
  ])('%s is refused', async (_what, path, body) => {
    expect(await post(path, body)).toBe(400);
  });

  it('a property that is called __proto__ reaches nothing', async () => {
    const answer = await started.fetch('/body?q=1', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"__proto__":{"user":{"id":"7"},"name":"n"}}',
    });
    expect(answer.status).toBe(400);
    expect(Object.prototype).not.toHaveProperty('user');
  });
});

describe('keys that come with calls', () => {
  it('calls with different values never have one key, and those with equal values always do', async () => {
    const { app } = await startApp('express', { providers: [Shop] });
    const shop = app.get(Shop);
    const keys = new Map<string, string>();
    const value = fc.oneof(text, fc.integer().map(String));
    const property = fc.asyncProperty(value, value, value, async (...values) => {
      const key = await shop.keyOf(...values).catch((error: LockKeyError) => error.code);
      expect(key).toBe(expected(...values) ?? 'LOCK_KEY');
      if (key === undefined || key === 'LOCK_KEY') return;
      const written = JSON.stringify(values);
      expect(keys.get(key) ?? written).toBe(written);
      keys.set(key, written);
    });
    await fc.assert(property, { numRuns: 400 });
    expect(keys.size).toBeGreaterThan(100);
    await app.close();
  });
});

describe('keys', () => {
  it('are made by each of several routes of a handler, and one without the parameter is refused', async () => {
    @Controller()
    class Goods {
      @All(['many', 'many/:id'])
      @Locked('many:<params.id|trim>')
      async many(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<string> {
        return lock.key;
      }
    }
    const { fetch } = await fresh({ controllers: [Goods] });
    expect(await (await fetch('/many/7', { method: 'PUT' })).text()).toBe('many:7');
    expect((await fetch('/many')).status).toBe(400);
  });

  it('that cannot be made are told to the log, by the placeholder and without a value', async () => {
    const debug = jest.spyOn(Logger.prototype, 'debug').mockReturnValue(undefined);
    @Controller()
    class Goods {
      @Post()
      @Locked('goods:<headers.x-tenant>:<body.sku>')
      async buy(): Promise<void> {}
    }
    const { fetch } = await fresh({ controllers: [Goods] });
    const form = new FormData();
    form.set('sku', 'secret');
    expect((await fetch('/', { method: 'POST', body: form, headers: { 'x-tenant': 'secret' } })).status).toBe(
      400,
    );
    expect((await fetch('/', { method: 'POST' })).status).toBe(400);
    const [ofForm, ofHeader] = debug.mock.calls.map(([text]) => String(text));
    expect(ofForm).toMatch(/^@Locked on Goods\.buy: .*<body\.sku>.* is undefined.*multipart form/);
    expect(ofHeader).toMatch(/^@Locked on Goods\.buy: .*<headers\.x-tenant>.* is undefined/);
    expect(`${ofForm}${ofHeader}`).not.toContain('secret');
    debug.mockRestore();
  });

  it('that lack what the server itself has to give are told to the log in a warning, once for each route', async () => {
    const warned = jest.spyOn(Logger.prototype, 'warn').mockReturnValue(undefined);
    const debug = jest.spyOn(Logger.prototype, 'debug').mockReturnValue(undefined);
    const CurrentUser = createParamDecorator(() => ({}));
    @Controller()
    class Goods {
      @All('guard/:id')
      @Locked('goods:<user.tenant>:<params.id>')
      async ofGuard(): Promise<void> {}

      @All('filter')
      @Locked('goods:<user.tenant|int>')
      async ofFilter(): Promise<void> {}

      @All('decorator')
      @Locked('goods:<0.tenant>')
      async ofDecorator(@CurrentUser() _user: { tenant: string }): Promise<void> {}

      @All('function')
      @Locked((user: { tenant: string }) => lockKey`goods:${user.tenant}`)
      async ofFunction(@CurrentUser() _user: { tenant: string }): Promise<void> {}

      @All('nothing')
      @Locked((_id: string) => undefined as unknown as string)
      async ofNothing(@CurrentUser() _id: string): Promise<void> {}

      @All('client')
      @Locked((id: string) => lockKey`goods:${id}`)
      async ofClient(@Query('id') _id: string): Promise<void> {}
    }
    const { fetch } = await fresh({ controllers: [Goods] });
    const routes = ['guard/secret', 'filter', 'decorator', 'function', 'nothing', 'client'];
    for (const route of [...routes, 'guard/other']) expect((await fetch(`/${route}`)).status).toBe(400);

    const lines = warned.mock.calls.map(([text]) => String(text));
    const places = ['ofGuard', 'ofFilter', 'ofDecorator', 'ofFunction', 'ofNothing'];
    expect(lines).toEqual(
      places.map((name) =>
        expect.stringMatching(`^@Locked on Goods\\.${name}: .* No client sends it: look for a guard`),
      ),
    );
    expect(lines[0]).toContain(
      '"goods:<user.tenant>:<params.id>": the value of <user.tenant> at position 6 is undefined',
    );
    expect(lines.join('')).not.toContain('secret');
    expect(debug).toHaveBeenCalledTimes(1);
    warned.mockRestore();
    debug.mockRestore();
  });

  it.each<[what: string, named: string, key: unknown, method: string, args: ParameterDecorator[]]>([
    ['a header', 'header x-tenant', 'a:<query.id>:<headers.X-Tenant>', 'GET', []],
    ['a header of a parameter', 'header X-Tenant', 'a:<X-Tenant>', 'GET', [Headers('X-Tenant')]],
    ['a field', 'body.secret.sku', 'a:<body.secret.sku>', 'POST', []],
    ['a list', 'body.lines[].sku', 'a:<body.lines[].sku>', 'POST', []],
    ['a filter that refuses', 'query.id', 'a:<query.id|int>', 'GET', []],
    ['a parameter', 'query.sku', 'a:<sku>', 'GET', [Query('sku')]],
    ['a property of a parameter', 'body.secret.sku', 'a:<secret.sku>', 'POST', [Body('secret')]],
    ['a parameter by position', 'body.sku', 'a:<1.sku>', 'POST', [Query('id'), Body()]],
    ['a whole body', 'body', 'a:<0>', 'POST', [Body()]],
    ['a part of a route', 'params.sku', 'a:<params.sku>', 'GET', []],
    ['the user', '', 'a:<user.tenant>', 'GET', []],
    ['a parameter of the application', '', 'a:<0.tenant>', 'GET', [createParamDecorator(() => ({}))()]],
    ['a key function', '', () => lockKey`a:${'' as string}`, 'GET', []],
  ])('that cannot be made are told to the client by what it sends, not the value: %s', async (...row) => {
    const [, named, key, method, args] = row;
    class Goods {
      async buy(..._args: unknown[]): Promise<void> {}
    }
    for (const [position, decorate] of args.entries()) decorate(Goods.prototype, 'buy', position);
    const descriptor = Object.getOwnPropertyDescriptor(Goods.prototype, 'buy')!;
    const locked = Locked(key as string) as MethodDecorator;
    const decorated = Reflect.decorate([All(), locked], Goods.prototype, 'buy', descriptor);
    Object.defineProperty(Goods.prototype, 'buy', decorated);
    Reflect.decorate([Controller()], Goods);
    const { fetch } = await fresh({ controllers: [Goods] });
    const headers = { 'content-type': 'application/json' };
    const body = method === 'POST' ? { body: '{"secret":{"id":"secret"}}', headers } : {};
    const answer = await fetch('/?id=secret', { method, ...body });
    const detail = named && `: ${named} is missing or not valid`;
    expect(await answer.json()).toEqual({
      statusCode: 400,
      error: 'Bad Request',
      message: `The request does not name what it wants to use${detail}.`,
      code: 'LOCK_KEY',
    });
  });
});
