import { describe, expect, it } from '@jest/globals';
import { isAmong } from './registrations.js';

describe('an object', () => {
  const object = { name: 'one' };
  const proxy = new Proxy(object, {});
  const throwing = new Proxy(
    {},
    {
      getOwnPropertyDescriptor() {
        throw new Error('outside of a request');
      },
    },
  );

  it.each<[string, object, object]>([
    ['itself', object, object],
    ['a Proxy of it', object, proxy],
    ['what its Proxy is around', proxy, object],
    ['another Proxy of the same', proxy, new Proxy(object, {})],
    ['a Proxy of a Proxy of it', object, new Proxy(proxy, {})],
    ['itself, though it is frozen', Object.freeze({ frozen: true }), object],
  ])('is found as %s', (_, one, other) => {
    const others = [null, undefined, 'text', throwing, {}, Object.isFrozen(one) ? one : other];
    expect(isAmong(others, one)).toBe(true);
    expect(Reflect.ownKeys(one)).toHaveLength(1);
  });

  it('is not found among others, whatever they are', () => {
    expect(
      isAmong([null, undefined, 1, 'one', throwing, { name: 'one' }, Object.create(object)], object),
    ).toBe(false);
    expect(isAmong([object], Object.freeze({}))).toBe(false);
    expect(Reflect.ownKeys(object)).toEqual(['name']);
  });
});
