import { describe, expect, it } from '@jest/globals';
import { Observable } from 'rxjs';
import { Locked } from './locked.decorator.js';
import { exclusive, permits, shared } from '../lock/request/key-claim.js';
import { lockKey } from '../keys/key-template.js';

interface Cart {
  readonly meta: { readonly n: number; readonly o: object };
  readonly items: readonly { readonly sku: string; readonly n?: number }[];
}

class Shop {
  readonly last = 'none';
}
class Other {
  readonly only = 'other';
}

const shop = new Shop();
/** The arguments that TypeScript passes to a decorator of a method with the type `M`. */
const of = <M>(): TypedPropertyDescriptor<M> => ({});
const nothing = of<() => Promise<void>>();
const byId = of<(id: string) => Promise<void>>();
const byIds = of<(a: string, b: string) => Promise<void>>();
const byCart = of<(id: string, cart: Cart) => Promise<void>>();
const text = of<() => Promise<string>>();
const textById = of<(id: string) => Promise<string>>();
const perhapsText = of<() => Promise<string | undefined>>();
const anything = of<() => Promise<unknown>>();
const numbers = of<() => Observable<number>>();
const generated = of<() => AsyncGenerator<number>>();

/** The compiler checks these functions. No test calls them, because some of them would throw. */
describe('the types of @Locked', () => {
  it('accept positions, properties and lists that the method has, and names unchecked', () => {
    expect(() => {
      Locked('a:<0>')(shop, 'm', byId);
      Locked(['a:<0|trim>', 'b:<1.meta.n>', 'c:<1.items[].sku>'])(shop, 'm', byCart);
      Locked('a:<0[]>')(shop, 'm', of<(ids: readonly string[]) => Promise<void>>());
      Locked('a:<id>:<params.x>')(shop, 'm', byId);
      Locked(shared('a:<0>'))(shop, 'm', byId);
      Locked([shared('a:<0>'), 'b:<1.meta.n>', permits('c', 3)])(shop, 'm', byCart);
      Locked((id: string) => [exclusive(lockKey`a:${id}`), id])(shop, 'm', byIds);
      Locked('a:<0>')(shop, 'm', of<<T extends string>(id: T) => Promise<T>>());
      Locked((id: string) => lockKey`a:${id}`)(shop, 'm', byIds);
      Locked((id) => String(id))(shop, 'm', byId);
      Locked('a', { onBusy: 'skip' })(shop, 'm', perhapsText);
      Locked('a', { when: (id: string) => id !== '', onBusy: (busy, id: string) => busy.code + id })(
        shop,
        'm',
        of<(id: string, n: number) => Promise<string>>(),
      );
    }).toBeInstanceOf(Function);
  });

  it('accept results that go on producing, and any', () => {
    expect(() => {
      Locked('a', { stream: true })(shop, 'm', numbers);
      Locked('a', { onBusy: 'skip' })(shop, 'm', generated);
      Locked('a')(shop, 'm', of<() => Promise<Response>>());
      Locked('a')(shop, 'm', of<() => Promise<ReadableStream<Uint8Array> | undefined>>());
      Locked('a')(shop, 'm', of<() => Promise<any>>());
      Locked('a')(shop, 'm', of<() => Promise<never>>());
    }).toBeInstanceOf(Function);
  });

  it('refuse what the method does not have, or what is not always there', () => {
    expect(() => {
      // @ts-expect-error there is no third argument
      Locked('a:<2>')(shop, 'm', byId);
      // @ts-expect-error an optional argument may be missing
      Locked('a:<0>')(shop, 'm', of<(id?: string) => Promise<void>>());
      // @ts-expect-error no such property
      Locked('a:<1.meta.x>')(shop, 'm', byCart);
      // @ts-expect-error an object makes no key
      Locked('a:<1.meta.o>')(shop, 'm', byCart);
      // @ts-expect-error the elements may be without n
      Locked(['a', 'b:<1.items[].n>'])(shop, 'm', byCart);
      // @ts-expect-error there is no third argument
      Locked(shared('a:<2>'))(shop, 'm', byId);
      // @ts-expect-error an object makes no key
      Locked(['a', permits('b:<1.meta.o>', 3)])(shop, 'm', byCart);
      // @ts-expect-error the bracket is not closed
      Locked('a:<0')(shop, 'm', byId);
    }).toBeInstanceOf(Function);
  });

  it('take braces and colons that are meant as they stand', () => {
    expect(() => {
      Locked('{<0>}:goods:<1>')(shop, 'm', byIds);
      Locked('{order:<0>}:lines')(shop, 'm', byId);
      Locked('{shard-1}:report:nightly')(shop, 'm', nothing);
      Locked(() => '{orders}:nightly')(shop, 'm', nothing);
      Locked((id: string) => lockKey`{orders}::${id}`)(shop, 'm', byId);
    }).toBeInstanceOf(Function);
  });

  it('refuse methods that cannot wait, functions and options that do not fit', () => {
    expect(() => {
      // @ts-expect-error a plain value cannot wait for a lock
      Locked('a')(shop, 'm', of<() => string>());
      // @ts-expect-error nor can a generator
      Locked('a')(shop, 'm', of<() => Generator<number>>());
      // @ts-expect-error nor what starts when the lock is given back
      Locked('a')(shop, 'm', of<() => Promise<Generator<number>>>());
      // @ts-expect-error the function takes a number, the method a string
      Locked((id: number) => `a:${id}`)(shop, 'm', byId);
      // @ts-expect-error the function takes more than the method
      Locked((a: string, b: string) => a + b)(shop, 'm', byId);
      // @ts-expect-error a skipped call gives undefined
      Locked('a', { onBusy: 'skip' })(shop, 'm', text);
      // @ts-expect-error `when` takes other arguments
      Locked('a', { when: (id: number) => id > 0 })(shop, 'm', byId);
      // @ts-expect-error no such option
      Locked('a', { waitMs: 0, waitMS: 3 })(shop, 'm', nothing);
    }).toBeInstanceOf(Function);
  });

  it('accept a fallback that answers as the method does, with the arguments and `this` of the method', () => {
    const busyShop = function (this: Shop, busy: Error, id: string): string {
      return `${busy.message} ${id} ${this.last}`;
    };
    const ofClass = function (this: typeof Shop): string {
      return this.name;
    };
    const priced = of<(id: string) => Promise<{ id: string; price: number | undefined }>>();
    const fail = () => {
      throw new Error('busy');
    };
    expect(() => {
      Locked('a', { onBusy: busyShop })(shop, 'm', textById);
      Locked('a', { onBusy: ofClass })(Shop, 'm', text);
      Locked('a', { onBusy: async (_busy, id: string) => ({ id, price: undefined }) })(shop, 'm', priced);
      Locked('a', { onBusy: fail })(shop, 'm', text);
      Locked('a', { onBusy: () => 1 })(shop, 'm', nothing);
      Locked('a', { onBusy: () => {} })(shop, 'm', perhapsText);
      Locked('a', { onBusy: (busy) => ({ code: busy.code }) })(shop, 'm', anything);
      Locked((id: string) => id, { stream: true, onBusy: () => 1 })(
        shop,
        'm',
        of<(id: string) => Observable<number>>(),
      );
      Locked('a', { stream: true, onBusy: () => new Observable<number>() })(shop, 'm', numbers);
      Locked('a', { onBusy: () => [1, 2] })(shop, 'm', generated);
    }).toBeInstanceOf(Function);
  });

  it('refuse a fallback with another result, other arguments or another `this`', () => {
    const ofOther = function (this: Other): string {
      return this.only;
    };
    const priced = of<(id: string) => Promise<{ id: string; price: number }>>();
    expect(() => {
      // @ts-expect-error the method gives a string
      Locked('a', { onBusy: () => 1 })(shop, 'm', text);
      // @ts-expect-error a property is missing
      Locked((id: string) => id, { onBusy: async (_busy, id: string) => ({ id }) })(shop, 'm', priced);
      // @ts-expect-error the method gives a string in any case
      Locked('a', { onBusy: () => undefined })(shop, 'm', text);
      // @ts-expect-error the Observable gives numbers
      Locked('a', { stream: true, onBusy: () => 'text' })(shop, 'm', numbers);
      // @ts-expect-error the generator gives numbers
      Locked('a', { onBusy: () => ['text'] })(shop, 'm', generated);
      // @ts-expect-error the method takes a string
      Locked('a', { onBusy: (_busy, id: number) => String(id) })(shop, 'm', textById);
      // @ts-expect-error another class
      Locked('a', { onBusy: ofOther })(shop, 'm', text);
    }).toBeInstanceOf(Function);
  });
});
