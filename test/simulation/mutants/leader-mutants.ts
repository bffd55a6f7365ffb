import { mutantsOf, type Mutant } from './mutant.js';

/** The election of a leader, its terms and their work. */
export const LEADER_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('documents', 'leader/candidate.js', [
    [
      'a leader believes in its term when the lease is over',
      'return term?.isHeld ? term : undefined',
      'return term',
    ],
    [
      'resign() does not end the term',
      "this.terms.value?.end('resigned', new LockNotHeldError(message, key))",
      'this.terms.value !== undefined && message.length > 0',
    ],
    ['resign() does not wait for the release', 'if (!hasEnded || isWork)', 'if (!hasEnded || !isWork)'],
    [
      'work of a term that resigns waits for itself',
      'if (!hasEnded || isWork)',
      'if (!hasEnded || isWork === undefined)',
    ],
    ['an @OnDemoted method that resigns waits for itself', 'if (!hasEnded || isWork)', 'if (isWork)'],
    [
      'a listener of leader$ that resigns waits for the term before',
      'this.stepDown = new Promise((resolve) => (onReleasing = resolve));',
      'const stepDown = new Promise((resolve) => (onReleasing = resolve)); void term.over.then(() => (this.stepDown = stepDown));',
    ],
    ['a candidate that is closed stands again', 'while (!signal.aborted) {', 'while (true) {'],
    [
      'a candidate whose work has failed stands again at once',
      "return reason !== 'failed' || ledMs > MAX_PAUSE_MS",
      'return true',
    ],
    [
      'listeners of leader$ are not told of the end of a term',
      'this.terms.next(undefined)',
      'this.failures += 0',
    ],
    [
      '@OnDemoted methods are not called',
      'for (const handler of handlers.demoted)',
      'for (const handler of [])',
    ],
    [
      'the lock of a leader is given back while its work runs, before the grace is over',
      'await this.finishWithin(locks, term, reason);',
      '',
    ],
    [
      'a candidate stands again while work of its last term runs',
      'await Promise.all([this.release, term.settled()])',
      'await this.release',
    ],
    [
      'work that ends with the reason of the signal of its term has failed',
      'if (isAbort(error, term.signal))',
      'if (isAbort(error, this.standing.signal))',
    ],
    [
      'a leader whose work has failed goes on',
      "term.end('failed', new LockNotHeldError(message, this.key, { cause: error }));",
      '',
    ],
    [
      'a leader that closes does not give its lock back',
      "this.terms.value?.end('shutdown', error)",
      'this.terms.complete()',
    ],
    [
      'a leader gives nothing back at the end of its term',
      'this.release = lock.release()',
      'this.release = term.over',
    ],
    [
      'an error of a listener of leader$ is not caught',
      'GuardedEvents.bound(this.terms, (error) => this.report(',
      'this.terms.asObservable() ?? ((error) => this.report(',
    ],
  ]),
  ...mutantsOf('documents', 'leader/candidate.js', [
    ['a term goes on when its lock is lost', "this.endWith(lock.signal, 'lost')", ''],
    ['a term goes on when the application closes', "this.endWith(lock.shutdownSignal, 'shutdown')", ''],
    ['the signal of a term that is over does not abort', 'this.controller.abort(cause)', 'void cause'],
    [
      'a leader that has resigned believes in its term',
      '!this.isOver && this.lock.validForMs > 0',
      'this.lock.validForMs > 0',
    ],
    [
      'work of a leader runs outside of the flow that holds its lock',
      'this.follow(() => this.lock.run(begin))',
      'this.follow(begin)',
    ],
    ['work of a term is not waited for', 'this.underWay += 1', 'this.underWay += 0'],
  ]),
];
