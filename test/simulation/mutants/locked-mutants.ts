import { mutantsOf, type Mutant } from './mutant.js';

/** Methods with `@Locked`: their keys, their lock and its end, and what their callers get. */
export const LOCKED_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('documents', 'locked/under-lock.js', [
    [
      'the lock of a handler is given back while its stream is read',
      'this.hasEnded && this.parts === 0',
      'this.hasEnded',
    ],
    [
      'the lock of a handler is not given back',
      'this.hasEnded && this.parts === 0',
      'this.hasEnded && this.parts > 0',
    ],
  ]),
  ...mutantsOf('documents', 'locked/handler-run.js', [
    [
      'a handler does not run in the flow that holds its lock',
      'lock && currentFlow()?.handlerRun !== this ? runHolding(lock, work, as) : runFor(as, work)',
      'runFor(as, work)',
    ],
  ]),
  ...mutantsOf('documents', 'locked/acquire.js', [
    ['onBusy answers for each error of acquiring', '|| !isBusy)', ')'],
  ]),
  ...mutantsOf('documents', 'locked/registrations.js', [
    [
      'a method takes the lock of the registration without a name',
      'injectedProperty(name)',
      'injectedProperty(undefined)',
    ],
  ]),
  ...mutantsOf('documents', 'locked/call.js', [
    ['onBusy answers for an error of the method itself', 'if (hasStarted)', 'if (hasStarted && !fallBack)'],
    ['a method ignores what its onLost says', 'onLost: plan.onLost }', "onLost: 'ignore' }"],
    [
      'a generator that ends while it waits goes on waiting',
      'cancellation.cancel(RETURNED)',
      'void RETURNED',
    ],
    [
      'a generator that has ended keeps its lock',
      'onEnd: () => lock.releaseInBackground()',
      'onEnd: () => undefined',
    ],
    [
      'an Observable of a method does not hold the lock in its flow',
      'runHolding(lock, () => start(lock).subscribe(observer))',
      'start(lock).subscribe(observer)',
    ],
  ]),
];
