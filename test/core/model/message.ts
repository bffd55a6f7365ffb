import type { Message } from './state.js';

/** Always in one order of fields, so that equal messages read the same. */
export function message(it: Pick<Message, 'kind' | 'owner'> & Partial<Message>): Message {
  const {
    kind,
    owner,
    isLate = false,
    isSlow = false,
    age = 0,
    notAfter = 0,
    belief = 0,
    first = 0,
    last = 0,
  } = it;
  const { floor = 0, keep = 0, flag = false } = it;
  return { kind, owner, isLate, isSlow, age, notAfter, belief, first, last, floor, keep, flag };
}
