import { mutantsOf, type Mutant } from './mutant.js';

/** Time, lease, owner and acquire loop, which all stores share. */
export const CORE_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('documents', 'common/clock.js', [
    [
      'a sleep of the machine is never counted',
      'if (slept - sleptMs > (isCoarse ?',
      'if (slept < 0 && (isCoarse ?',
    ],
    [
      'a sleep is noticed a second late, and moments from before it are kept',
      'Math.abs(offset - checkedOffset) > MIN_SLEEP_MS || at - checkedAt >= CHECK_MS',
      'at - checkedAt >= CHECK_MS',
    ],
    [
      'a sleep is counted only if the clock was not set back',
      'Math.abs(offset - checkedOffset) > MIN_SLEEP_MS || at - checkedAt >= CHECK_MS',
      'offset - checkedOffset > MIN_SLEEP_MS',
    ],
  ]),
  ...mutantsOf('documents', 'port/timing.js', [
    [
      'holders believe for longer than the lease',
      'return startedAt + leaseMs - leaseMargin(leaseMs)',
      'return startedAt + leaseMs + 300',
    ],
    ['holders take no margin off for clocks that drift', 'TIMER_SLACK_MS + leaseMs * DRIFT', '0'],
    [
      'holders take half of the margin off for clocks that drift',
      'TIMER_SLACK_MS + leaseMs * DRIFT',
      'leaseMs * DRIFT * 0.5',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/held-lock.js', [
    [
      'a holder is always told that others wait',
      'this.isHeld() && this.holds.some((hold) => hold.owner.contention.isContended)',
      'this.isHeld()',
    ],
    ['a lock can be used after its release', 'if (this.released !== undefined) {', 'if (false) {'],
  ]),
  ...mutantsOf('documents', 'lock/core/deadlocks.js', [
    ['flows that wait for each other go on waiting', 'if (path)', 'if (false)'],
    [
      'each wait for the holder of a key that waits itself is taken for a cycle',
      'if (!mine.some((hold) => isInTheWay(hold, next.request)))',
      'if (false)',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/owner-registry.js', [
    [
      'a service tells of no lock that it holds',
      'return Array.from(this.allHolds(), (hold) => hold.describe());',
      'return [];',
    ],
  ]),
  ...mutantsOf('documents', 'sql/register.js', [
    ['a list ends after its first page', 'last?.startsWith(prefix) ? last : undefined', 'undefined'],
  ]),
  ...mutantsOf('documents', 'port/timing.js', [
    ['waiters recheck once a minute', 'RECHECK_MS = 1000', 'RECHECK_MS = 60_000'],
  ]),
  ...mutantsOf('documents', 'connection/server-clock.js', [
    [
      'a grant by notification is dated by when its document was received',
      'return this.sent.now + (serverMs - this.serverMs)',
      'return this.receivedAt + 50 + (serverMs - this.serverMs)',
    ],
    [
      'requests may be executed a minute late',
      'return Math.floor(this.serverMs + (now - this.receivedAt))',
      'return Math.floor(this.serverMs + (now - this.receivedAt)) + 60_000',
      'A release is repeated for as long as the request may be executed, so that only more releases are sent.',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/local-queue.js', [
    [
      'callers behind a lost lock get no owner',
      'else if (!this.holding.delete(owner))',
      'else if (this.holding.delete(owner) || true)',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/places-in-line.js', [
    [
      'one caller more than maxWaiting waits in a process',
      'if (isDue && ahead >= call.request.terms.maxWaiting)',
      'if (isDue && ahead > call.request.terms.maxWaiting)',
    ],
    [
      'a process that holds counts none but its own callers',
      'if (!holdingOwner?.contention.hasWaitingOwners)',
      'if (true)',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/takeover.js', [
    ['a takeover queues behind all that wait', '- Number.MAX_SAFE_INTEGER', '+ Number.MAX_SAFE_INTEGER / 2'],
    ['a takeover leaves no grace', 'if (now >= target.forcedAt)', 'if (true)'],
    ['a takeover does not wait until the holder must have been told', '+ maxNoticeMs(commandTimeoutMs)', ''],
    ['a takeover never comes to force', 'return this.force(target);', 'return;'],
    ['a holder is not told that its lock is taken over', 'this.announce(target);', 'void target;'],
  ]),
  ...mutantsOf('documents', 'lock/core/refusals.js', [
    [
      'a caller whose store is away is told that the key is busy',
      'if (!failure && (this.holder || queue.holdingOwner))',
      'if (this.holder || queue.holdingOwner)',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/local-queue.js', [
    [
      'one that asks once is refused by its process, although the store has failed since',
      'return this.isWaitedFor && !this.refusals.isStoreFailing;',
      'return this.isWaitedFor;',
    ],
    [
      'callers beside others do not wait for the first reply',
      'const isAnswered = this.refusals.isAnswered(call) || this.isInStoreQueue;',
      'const isAnswered = true;',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/takeover.js', [
    [
      'a takeover goes on against its first holder',
      'if (holder !== this.target?.holder)',
      'if (!this.target)',
    ],
    [
      'a takeover does not wait for clocks that drift',
      'return graceMs + leaseMargin(graceMs) + maxNoticeMs',
      'return graceMs + maxNoticeMs',
    ],
    [
      'a notice that is repeated shortens the grace',
      'const lateMs = by === this.by ? maxNoticeMs(commandTimeoutMs) : 0;',
      'const lateMs = 0;',
    ],
    [
      'a shorter grace of another takeover does not count',
      'return graceMs >= this.leftMs() - lateMs;',
      'return true;',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/lease.js', [
    [
      'after a sleep a timer notices the end of a fixed lease late',
      'clock.timeOfDay ? WAKE_CHECK_MS : Infinity',
      'Infinity',
    ],
    [
      'a fixed lease runs out when two thirds of it are over',
      'this.fixedUntil = leaseValidity(runtime.clock.now(), this.leaseMs);',
      'this.fixedUntil = this.validUntil = Math.min(this.validUntil, leaseValidity(runtime.clock.now(), 0.7 * this.leaseMs));',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/hold.js', [
    ['the signal of a lock that is lost does not abort', 'this.controller?.abort(error);', ''],
  ]),
  ...mutantsOf('documents', 'lock/core/owner.js', [
    [
      'the rest of a minimum hold is told to the store when the fixed lease is over there, too',
      "const isOver = reason === 'expired' && holdUntil === undefined;",
      "const isOver = reason === 'expired';",
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/takeover.js', [
    ['a later takeover prolongs the grace', 'return graceMs >= this.leftMs() - lateMs;', 'return false;'],
    [
      'a holder that is told ends by force alone',
      '() => owner.onGraceOver(this)',
      '() => undefined',
      'Force comes a moment later, and the holder is told of that, too.',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/lease.js', [
    [
      'extend(shorter) is believed only once it is answered',
      'this.validUntil = Math.min(this.validUntil, end);',
      '',
    ],
    [
      'the answer to an earlier renewal undoes extend(shorter)',
      'this.believe(Math.min(validUntil, this.surelyUntil));',
      'this.believe(validUntil);',
    ],
    [
      'local hand-offs go on when the tokens are used up',
      'if (!this.hasToken || this.renewalError || !this.watched)',
      'if (!this.watched)',
      'A grant has tokens for 1000 hand-offs, and no history has so many callers.',
    ],
    [
      'the lease is renewed when it is over',
      'Math.min(this.leaseMs, leftMs) / RENEWALS_PER_LEASE',
      'Math.min(this.leaseMs, leftMs)',
    ],
    [
      'a lock that is over by the time of day alone is believed in by those who assert it',
      "? 'valid' : 'unsure'",
      "? 'valid' : 'valid'",
    ],
    [
      'a renewal without an answer is not repeated',
      'this.renewAt = this.owner.now + randomMs(runtime.chance, RENEWAL_RETRY_MS)',
      'this.renewAt = Infinity',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/watchdog.js', [
    ['the watchdog renews nothing', '.filter((lease) => lease.isRenewalDue())', '.filter(() => false)'],
  ]),
  ...mutantsOf('documents', 'lock/core/lease.js', [
    ['a lock in doubt passes for held', 'return UNSURE;', 'return undefined;'],
    [
      'a confirmation moves the end of a fixed lease',
      'Math.min(validUntil, this.fixedUntil), asked',
      'validUntil, asked',
    ],
    ['extend(ms) leaves the end of a fixed lease where it was', 'this.fixedUntil = asked;', ''],
    [
      'a confirmation without an answer waits for the next round',
      'this.cancelRetry = runtime.clock.after(dueInMs, () => this.renewNow());',
      '',
    ],
    ['no timer notices the end of a fixed lease', 'this.owner.noticeExpiry();', ''],
  ]),
  ...mutantsOf('documents', 'lock/core/hold.js', [
    ['a nested call gives back the lock of its flow', 'if (this.calls > 0)', 'if (false)'],
    [
      'a nested call cuts a minimum hold',
      'Math.max(this.holdUntil, this.owner.now + ms)',
      'this.owner.now + ms',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/fair-queues.js', [
    ['the next fair caller of a process is not woken', 'else if (index === 0)', 'else if (index < 0)'],
    [
      'the next fair caller of a process does not recheck',
      'this.recheckAfter(Math.max(0, this.asked.now + RECHECK_MS - this.runtime.clock.now()))',
      'void 0',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/contention.js', [
    [
      'local hand-offs go on for a hundred times as long while others wait',
      '{ sharedMs: 3.5, minMs: 0.5, minCallers: 16, maxMs: 16 }',
      '{ sharedMs: 1600, minMs: 150, minCallers: 1600, maxMs: 1600 }',
    ],
    [
      'an older answer ends the budget of local hand-offs',
      'if (this.onOthers(waiting) || this.toldAt > askedAt)',
      'if (this.onOthers(waiting))',
    ],
  ]),
  ...mutantsOf('documents', 'lock/request/key-claim.js', [
    [
      'a key with a claim of its own is held as the options say',
      'return { ...options, mode, permits: count, weight };',
      'return options;',
    ],
  ]),
  ...mutantsOf('documents', 'lock/lock.service.js', [
    ['callers that wait are not dismissed by a drain', 'this.acquirer.rejectWaitersWithoutLock();', ''],
  ]),
  ...mutantsOf('documents', 'lock/core/acquirer.js', [
    [
      'several keys are acquired in the order given',
      'requests.toSorted((a, b) => (a.key < b.key ? -1 : 1))',
      'requests.slice()',
    ],
    ['several keys are kept when one of them fails', 'held.reverse()', 'held.slice(0, 0)'],
    [
      'a drain refuses the calls of a flow that holds a lock',
      'const isRefused = this.isClosed && !own.some((hold) => hold.isLive());',
      'const isRefused = this.isClosed;',
    ],
    [
      'a service that closes admits new callers',
      'const isRefused = this.isClosed && !own.some((hold) => hold.isLive());',
      'const isRefused = false;',
    ],
    [
      'a flow that has lost its locks acquires others beside a drain',
      'const isRefused = this.isClosed && !own.some((hold) => hold.isLive());',
      'const isRefused = this.isClosed && own.length === 0;',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/lock-runtime.js', [
    ['holders keep their locks when the grace of a drain is over', 'owners.loseAll(', 'void ('],
  ]),
  ...mutantsOf('documents', 'lock/streams/held-source.js', [
    ['a stream that has ended keeps its lock', 'if (this.isOver && this.running === 0)', 'if (false)'],
    ['a stream ends at its first item', 'if (step.done)', 'if (true)'],
  ]),
  ...mutantsOf('documents', 'lock/core/owner.js', [
    [
      'a lease below the round trip is asked for without end',
      'const MAX_SLOW_REPLIES = 3',
      'const MAX_SLOW_REPLIES = Infinity',
    ],
    [
      'an owner without callers stays in the queue of the store',
      "if (state.kind === 'granted' || acquireLoop.mayBeQueued)",
      "if (state.kind === 'granted')",
      'Its process gives the lock back at once when it is granted: that takes two messages more.',
    ],
    [
      'a grant that came after its lease admits callers',
      'const isValid = lease.measureValidity(at) > 0;',
      'const isValid = true;',
    ],
    ['callers behind a downgraded lock get no owner', 'this.queue.onOwnerEnded(this);', ''],
    ['a loss is not told', 'for (const hold of lost) hold.lose(reason, detail, lease.renewalError);', ''],
    [
      'a minimum hold ends with a local hand-off',
      'if (!lease || this.minimumUntil > at.now ||',
      'if (!lease ||',
    ],
    ['a lock that was downgraded is handed on to a writer', 'claim !== this.claim', 'false'],
    [
      'the notice that others wait starts no budget',
      'this.contention.onOthers(notification.waiting);',
      'void notification.waiting;',
    ],
    [
      'local hand-offs go on for ever while others wait',
      'return !this.contention.isSpent(at.now) && lease.mayHandOff(at);',
      'return lease.mayHandOff(at);',
    ],
    ['another grant of the same owner counts as the same', 'if (grant.token !== lease.token)', 'if (false)'],
  ]),
  ...mutantsOf('documents', 'lock/core/owner.js', [
    [
      'a release does not tell of a minimum hold',
      'minimumUntil > this.now ? minimumUntil : undefined',
      'undefined',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/contention.js', [
    [
      'one other waiter does not count as contention',
      'const others = waiting - (owner.queue.isInStoreQueue ? 1 : 0);',
      'const others = waiting - 1;',
    ],
  ]),
  ...mutantsOf('documents', 'lock/core/acquire-loop.js', [
    ['an acquire that was not answered is forgotten', "if (error.reason === 'unknown')", 'if (false)'],
    ['an owner asks again without its ticket', 'mayWait, ticket, tokens', 'mayWait, ticket: 0, tokens'],
    ['a waiter never rechecks', 'this.recheckAfter(reply.recheckAfterMs)', 'undefined'],
    [
      'a notification puts off a recheck that is due before',
      'Math.min(this.recheckAt, now + ms)',
      'now + ms',
    ],
    [
      'a failed request is not repeated',
      'this.recheckAfter(randomMs(this.runtime.chance, RETRY_MS))',
      'undefined',
    ],
  ]),
  ...mutantsOf('documents', 'connection/reliable-release.js', [
    ['a release that was not answered is not repeated', '!this.isClosed && !isLate()', 'false'],
    [
      'a release does not wait for late acquires',
      'const isOver = reply.executedAt > requests.lateDeadline || isLate();',
      'const isOver = true;',
    ],
  ]),
];
