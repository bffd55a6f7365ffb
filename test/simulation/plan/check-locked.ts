import { InputError } from '../input-error.js';
import { fields, isObject, oneOf, optional, type Check } from './checks.js';
import type { LockedPlan } from './plan.js';

const LOCKED = fields<LockedPlan>({
  keys: oneOf('function', 'templates', 'list'),
  gives: oneOf('promise', 'throws', 'observable', 'generator'),
  reader: optional(oneOf('reads', 'leaves', 'drops')),
  onBusy: optional(oneOf('skip', 'answer')),
  isFree: optional(oneOf(true)),
});

/** Of a call whose own fields are checked elsewhere: what its `locked` says must go together with that. */
export const checkLocked: Check = (call, at) => {
  if (!isObject(call) || call['locked'] === undefined) return;
  const { locked, how, claims } = call;
  LOCKED(locked, `${at}.locked`);
  const { gives, reader, onBusy } = locked as LockedPlan;
  const isStream = gives === 'observable' || gives === 'generator';
  if (how !== 'handler' && how !== 'method')
    throw new InputError(`${at}.locked is for a handler or a method, and this is a call by ${String(how)}`);
  if (reader !== undefined && !isStream)
    throw new InputError(`${at}.locked.reader is for an observable or a generator, and it gives: ${gives}`);
  if (onBusy !== undefined && isStream)
    throw new InputError(`${at}.locked.onBusy is for a promise or throws, and it gives: ${gives}`);
  if (claims !== undefined && (locked as LockedPlan).keys === 'list')
    throw new InputError(`${at}.locked.keys list has one template, and its claims are of single keys`);
  if (onBusy === 'skip' && how === 'handler')
    throw new InputError(`${at}.locked.onBusy skip is for a method, and this is a handler`);
};
