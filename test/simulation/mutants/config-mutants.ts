import { mutantsOf, type Mutant } from './mutant.js';

/** How services are configured, and what their processes do with that. */
export const CONFIG_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('documents', 'lock/core/lock-runtime.js', [
    ['a drain leaves holders half of their grace', 'clock.after(graceMs, ()', 'clock.after(graceMs / 2, ()'],
    [
      'a grace without an end ends after a second',
      'clock.after(graceMs, ()',
      'clock.after(graceMs === Infinity ? 1000 : graceMs, ()',
    ],
    [
      'a drain waits for its whole grace, although nobody holds',
      'await owners.whenEmpty();',
      'await new Promise((done) => clock.after(graceMs, done));',
    ],
  ]),
  ...mutantsOf('documents', 'stores/core/document.store.js', [
    ['a key has no prefix in the store', 'return this.context.keyPrefix + key;', 'return key;'],
  ]),
];
