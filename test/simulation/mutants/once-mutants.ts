import { mutantsOf, type Mutant } from './mutant.js';

/** Work that runs one time for each key. */
export const ONCE_MUTANTS: readonly Mutant[] = mutantsOf('documents', 'once/once.service.js', [
  [
    'work runs without looking for a result under its lock',
    'await this.find(call, this.readNow(call.key))',
    'undefined',
  ],
  [
    'the result of work is not stored',
    "await this.store(call, lock, { kind: 'value', value });",
    "this.textOf({ kind: 'value', value });",
  ],
  ['work that has lost its lock succeeds', 'lock.assertHeld();', ''],
  [
    'nobody works after the one that worked has failed',
    '(await this.tryToWork(call, restMs()));',
    'undefined;',
  ],
  ['a result has no token', 'token: lock.fencingToken, text:', 'token: 0 * lock.fencingToken, text:'],
]);
