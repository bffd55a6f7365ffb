import { describe, expect, it } from '@jest/globals';
import { Observable } from 'rxjs';
import { Locked } from './locked.decorator.js';
import { lockKey } from './template/key-value.js';

interface Cart {
  readonly meta: { readonly n: number; readonly o: object };
  readonly items: readonly { readonly sku: string; readonly n?: number }[];
}

/**
 * The compiler checks this file; what must not compile is in functions that nobody calls, as some of it throws. In class
 * declarations: in class expressions the compiler refuses every decorator of this kind.
 */
describe('the types of @Locked', () => {
  it('accept positions, properties and lists that the method has, and names unchecked', () => {
    class Fine {
      @Locked('a:<0>')
      async argument(id: string): Promise<string> {
        return id;
      }
      @Locked(['a:<0|trim>', 'b:<1.meta.n>', 'c:<1.items[].sku>'])
      async deep(_id: string, _cart: Cart): Promise<void> {}
      @Locked('a:<0[]>')
      async list(_ids: readonly string[]): Promise<void> {}
      @Locked('a:<id>:<params.x>')
      async name(_id: string): Promise<void> {}
      @Locked('a:<0>')
      async generic<T extends string>(id: T): Promise<T> {
        return id;
      }
      @Locked((id: string) => lockKey`a:${id}`)
      async byFunction(_id: string, _other: number): Promise<void> {}
      @Locked((id) => String(id))
      async unannotated(_id: string): Promise<void> {}
      @Locked('a', { onBusy: 'skip' })
      async maybe(): Promise<string | undefined> {
        return 'ran';
      }
      @Locked('a', { when: (id: string) => id !== '', onBusy: (busy, id: string) => busy.code + id })
      async options(_id: string, _n: number): Promise<string> {
        return '';
      }
      @Locked('a', { stream: true })
      stream(): Observable<number> {
        return new Observable();
      }
    }
    class Streams {
      @Locked('a:<0>', { onBusy: 'skip' })
      async *generator(_id: string): AsyncGenerator<number> {
        yield 1;
      }
      @Locked('a')
      async response(): Promise<Response> {
        return new Response('text');
      }
      @Locked('a')
      async bytes(): Promise<ReadableStream<Uint8Array> | undefined> {
        return undefined;
      }
      @Locked('a')
      async anything(): Promise<any> {
        return 1;
      }
      @Locked('a')
      async never(): Promise<never> {
        throw new Error();
      }
    }
    expect(new Streams()).toBeInstanceOf(Streams);
    expect(new Fine()).toBeInstanceOf(Fine);
  });

  it('refuse what the method does not have, or what is not always there', () => {
    const refused = () => {
      class Refused {
        // @ts-expect-error there is no third argument
        @Locked('a:<2>')
        async position(_id: string): Promise<void> {}
        // @ts-expect-error an optional argument may be missing
        @Locked('a:<0>')
        async optional(_id?: string): Promise<void> {}
        // @ts-expect-error no such property
        @Locked('a:<0.meta.x>')
        async property(_cart: Cart): Promise<void> {}
        // @ts-expect-error an object makes no key
        @Locked('a:<0.meta.o>')
        async object(_cart: Cart): Promise<void> {}
        // @ts-expect-error the elements may be without n
        @Locked(['a', 'b:<0.items[].n>'])
        async element(_cart: Cart): Promise<void> {}
        // @ts-expect-error the bracket is not closed
        @Locked('a:<0')
        async unclosed(_id: string): Promise<void> {}
      }
      return Refused;
    };
    expect(refused).toBeInstanceOf(Function);
  });

  it('refuse what reads as a placeholder of another tool', () => {
    const refused = () => {
      class Refused {
        // @ts-expect-error braces
        @Locked('goods:{id}')
        async braces(_id: string): Promise<void> {}
        // @ts-expect-error two braces
        @Locked('goods:{{id}}')
        async twoBraces(_id: string): Promise<void> {}
        // @ts-expect-error a path in braces after a whole hash tag
        @Locked('{<0>}:goods:{dto.items[].id}')
        async path(_id: string): Promise<void> {}
        // @ts-expect-error as a route has it
        @Locked('goods::id')
        async colon(_id: string): Promise<void> {}
        // @ts-expect-error as a route has it
        @Locked('goods/:id')
        async slash(_id: string): Promise<void> {}
        // @ts-expect-error the backticks are missing, and `lockKey` before them
        @Locked('goods:${id}')
        async dollar(_id: string): Promise<void> {}
        // @ts-expect-error the second of several
        @Locked(['a', 'goods:{id}'])
        async several(_id: string): Promise<void> {}
      }
      return Refused;
    };
    expect(refused).toBeInstanceOf(Function);
    expect(refused).toThrow('write "goods:<id>"');
  });

  it('take braces and colons that are meant as they stand', () => {
    class Fine {
      @Locked('{<0>}:goods:<1>')
      async hashTag(_tenant: string, _id: string): Promise<void> {}
      @Locked('{order:<0>}:lines')
      async tagWithText(_id: string): Promise<void> {}
      @Locked('{shard-1}:report:nightly')
      async constantTag(): Promise<void> {}
      @Locked(() => '{orders}:nightly')
      async nameTag(): Promise<void> {}
      @Locked((id: string) => lockKey`{orders}::${id}`)
      async nameTagWithValue(_id: string): Promise<void> {}
    }
    expect(new Fine()).toBeInstanceOf(Fine);
  });

  it('refuse methods that cannot wait, functions and options that do not fit', () => {
    const refused = () => {
      class Refused {
        // @ts-expect-error a plain value cannot wait for a lock
        @Locked('a')
        sync(): string {
          return '';
        }
        // @ts-expect-error nor can a generator
        @Locked('a')
        *generator(): Generator<number> {
          yield 1;
        }
        // @ts-expect-error nor what starts when the lock is given back
        @Locked('a')
        async generators(): Promise<Generator<number>> {
          return (function* () {
            yield 1;
          })();
        }
        // @ts-expect-error the function takes a number, the method a string
        @Locked((id: number) => `a:${id}`)
        async otherType(_id: string): Promise<void> {}
        // @ts-expect-error the function takes more than the method
        @Locked((a: string, b: string) => a + b)
        async tooMany(_a: string): Promise<void> {}
        // @ts-expect-error a skipped call gives undefined
        @Locked('a', { onBusy: 'skip' })
        async skip(): Promise<string> {
          return '';
        }
        // @ts-expect-error `when` takes other arguments
        @Locked('a', { when: (id: number) => id > 0 })
        async when(_id: string): Promise<void> {}
        // @ts-expect-error no such option
        @Locked('a', { waitMs: 0, waitMS: 3 })
        async option(): Promise<void> {}
      }
      return Refused;
    };
    expect(refused).toBeInstanceOf(Function);
  });

  it('accept a fallback that answers as the method does, with the arguments and `this` of the method', () => {
    class Repository {
      last = 'none';
    }
    class Fine {
      private readonly repository = new Repository();

      @Locked('a', {
        onBusy(this: Fine, busy, id: string) {
          return `${busy.key} ${id} ${this.repository.last}`;
        },
      })
      async ofThis(_id: string): Promise<string> {
        return '';
      }
      @Locked('a', { onBusy: async (_busy, id: string) => ({ id, price: undefined }) })
      async later(_id: string): Promise<{ id: string; price: number | undefined }> {
        return { id: '', price: 1 };
      }
      @Locked('a', {
        onBusy: () => {
          throw new Error('busy');
        },
      })
      async throws(): Promise<string> {
        return '';
      }
      @Locked('a', { onBusy: () => 1 })
      async nothing(): Promise<void> {}
      @Locked('a', { onBusy: () => {} })
      async maybe(): Promise<string | undefined> {
        return '';
      }
      @Locked('a', { onBusy: (busy) => ({ code: busy.code }) })
      async anything(): Promise<unknown> {
        return '';
      }
      @Locked((id: string) => id, { stream: true, onBusy: () => 1 })
      observable(_id: string): Observable<number> {
        return new Observable();
      }
      @Locked('a', { stream: true, onBusy: () => new Observable<number>() })
      others(): Observable<number> {
        return new Observable();
      }
      @Locked('a', { onBusy: () => [1, 2] })
      async *generator(): AsyncGenerator<number> {
        yield 1;
      }
      @Locked('a', {
        onBusy(this: typeof Fine) {
          return this.name;
        },
      })
      static async ofClass(): Promise<string> {
        return '';
      }
    }
    expect(new Fine()).toBeInstanceOf(Fine);
  });

  it('refuse a fallback with another result, other arguments or another `this`', () => {
    class Other {
      only = 'other';
    }
    const refused = () => {
      class Refused {
        // @ts-expect-error the method gives a string
        @Locked('a', { onBusy: () => 1 })
        async result(): Promise<string> {
          return '';
        }
        // @ts-expect-error a property is missing
        @Locked((id: string) => id, { onBusy: async (_busy, id: string) => ({ id }) })
        async property(id: string): Promise<{ id: string; price: number }> {
          return { id, price: 1 };
        }
        // @ts-expect-error the method gives a string in any case
        @Locked('a', { onBusy: () => undefined })
        async missing(): Promise<string> {
          return '';
        }
        // @ts-expect-error the Observable gives numbers
        @Locked('a', { stream: true, onBusy: () => 'text' })
        observable(): Observable<number> {
          return new Observable();
        }
        // @ts-expect-error the generator gives numbers
        @Locked('a', { onBusy: () => ['text'] })
        async *generator(): AsyncGenerator<number> {
          yield 1;
        }
        // @ts-expect-error the method takes a string
        @Locked('a', { onBusy: (_busy, id: number) => String(id) })
        async argument(_id: string): Promise<string> {
          return '';
        }
        @Locked('a', {
          onBusy(this: Refused) {
            // @ts-expect-error there is no such property
            return this.nosuch;
          },
        })
        async typed(): Promise<unknown> {
          return '';
        }
        // @ts-expect-error another class
        @Locked('a', {
          onBusy(this: Other) {
            return this.only;
          },
        })
        async ofOther(): Promise<string> {
          return '';
        }
      }
      return Refused;
    };
    expect(refused).toBeInstanceOf(Function);
  });
});
