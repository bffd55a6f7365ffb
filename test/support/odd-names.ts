import fc from 'fast-check';
import { checkReserved } from '../../libs/distributed-lock/src/redis/keys.js';

const PIECES = [
  '{',
  '}',
  '{}',
  ':',
  ':timeout',
  'nest_lock_queue',
  'nest_lock_token:',
  '#2',
  ':write',
  'mode',
  'a',
];

/**
 * Names around `core` that rules for names may confuse: with braces in all places, with the endings and beginnings that
 * Redisson's keys and ours have. What is refused as a name of such a key is not among them.
 */
export function oddName(core: string): fc.Arbitrary<string> {
  return fc
    .tuple(around(fc.constantFrom(...PIECES, core)), around(fc.constantFrom(...PIECES, core)), fc.boolean())
    .map(([before, after, isBraced]) => {
      const name = before + core + after;
      return isBraced ? `{${name}}` : name;
    })
    .filter(isAllowed);
}

export type TwoNames = readonly [one: string, other: string];

/** Two locks that have nothing to do with each other, whose names are mostly akin: by braces, or by an ending. */
export function twoNames(core: string): fc.Arbitrary<TwoNames> {
  return oddName(core)
    .chain((one) => {
      const bare = one.replaceAll(/[{}]/g, '');
      const akin = [`{${one}}`, bare, `{${bare}}`, `${bare}}:{${bare}`, `${one}:timeout`, `{${one}}:timeout`];
      return fc.tuple(fc.constant(one), fc.oneof(fc.constantFrom(...akin), oddName(core)));
    })
    .filter((names) => names[0] !== names[1] && names.every(isAllowed));
}

function isAllowed(name: string): boolean {
  try {
    checkReserved(name);
    return true;
  } catch {
    return false;
  }
}

function around(piece: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.array(piece, { maxLength: 3 }).map((pieces) => pieces.join(''));
}
