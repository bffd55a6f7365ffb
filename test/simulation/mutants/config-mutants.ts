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
  ...mutantsOf('documents', 'document/store.js', [
    ['a key has no prefix in the store', 'return this.context.keyPrefix + key;', 'return key;'],
  ]),
  ...mutantsOf('documents', 'lock/core/owner.js', [
    [
      'a holder that is told of a takeover hands its lock on to its own callers',
      'if (this.grace)',
      'if (false)',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/hold.js', [
    [
      'the signal of a lock under the watchdog does not abort when the lock is lost',
      'this.controller?.abort(error)',
      '!owner.terms.watched && this.controller?.abort(error)',
    ],
    [
      'the signal of a lost lock names no loss',
      'this.controller?.abort(error)',
      "this.controller?.abort(new Error('over'))",
    ],
    [
      'the signal of a lock aborts as soon as its service closes',
      'this.shutdownController?.abort(shutdown)',
      "(this.shutdownController?.abort(shutdown), this.controller?.abort(new LockLostError(this.key, 0, 'shutdown', 'closing')))",
    ],
  ]),
  ...mutantsOf('documents', 'lock/request/lock-request.js', [
    [
      'a default minimum hold is ignored',
      ': withDefaults(call, defaults)',
      ': withDefaults(call, { ...defaults, holdAtLeastMs: 0 })',
    ],
    [
      'a default wait without an end ends after five seconds',
      ': withDefaults(call, defaults)',
      ': withDefaults(call, { ...defaults, waitMs: Math.min(defaults.waitMs ?? 5000, 5000) })',
    ],
    ['the defaults of a service are ignored', ': withDefaults(call, defaults)', ': call'],
    [
      'a call that names its claim has the default claim, too',
      'namesClaim && { mode, permits, weight }',
      'false && { mode }',
    ],
    ['a default limit refuses a takeover', "call.onBusy === 'takeover' && {", 'false && {'],
  ]),
];
