import {
  FIRST_PAUSE_MS,
  MAX_PAUSE_MS,
  Candidate,
} from '../../../libs/distributed-lock/src/leader/candidate.js';
import type { LeaderTerm } from '../../../libs/distributed-lock/src/leader/candidate.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockLostError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CandidatePlan, TermStep } from '../plan/candidate.js';
import type { Asking } from '../plan/plan.js';
import type { CallRecord, HoldRecord } from './history.js';
import { nameOf } from './names.js';
import { noteService } from './caller.js';
import { Program } from './program.js';
import { WorkFailed } from './work-failed.js';
import type { Actor, Held, Stage } from './stage.js';

/** Timers of a process are late by a little. */
const SLACK_MS = 5;
/** Work that resigns waits for nothing. */
const AT_ONCE_MS = 2;
const NO_ERROR = Symbol('no error');
/**
 * One that resigns at once leads again after a round trip, a thousand times in a history. The first few find what the others would, and a
 * history of these takes twenty times as long.
 */
const MAX_RESIGNATIONS = 25;

/** One term as it was seen from outside. */
interface Reign {
  readonly term: LeaderTerm;
  readonly lock: Lock;
  readonly held: Held;
  /** By the own clock, when its signal aborted. */
  overAtOwn?: number;
  /** Of its signal, which work may throw. */
  reason?: unknown;
  /** `@OnDemoted` was called. */
  isTold?: boolean;
}

/**
 * One candidate of a process. Each of its terms is a hold of the key, of which the candidate itself says how long it believes in it,
 * so that all rules of holders are rules of leaders.
 */
export class Standing {
  readonly candidate: Candidate;
  /** True time of the last election. */
  electedAt = -Infinity;
  isClosed = false;
  private readonly service: LockService;
  private reign: Reign | undefined;
  private lock: Lock | undefined;
  /** The last value of `leader$`. */
  private announced: object | undefined;
  private terms = 0;
  /** Work of its terms that runs. */
  private running = 0;
  /** By itself. */
  private resignations = 0;
  /** By the own clock, when it may ask again at the earliest. */
  private pausedUntilOwn = -Infinity;

  constructor(
    private readonly stage: Stage,
    readonly actor: Actor,
    readonly plan: CandidatePlan,
    private readonly label: string,
  ) {
    this.candidate = new Candidate(plan.name, `leader:${plan.name}`);
    this.service = actor.services[plan.service] as LockService;
    actor.process.onEnd(() => (this.isClosed = true));
  }

  get isAlive(): boolean {
    return !this.isClosed && this.actor.process.state === 'running';
  }

  /** Its services are not told to close, so that it may be elected. */
  get mayLead(): boolean {
    const { drains } = this.stage.parts.history;
    return this.isAlive && !drains.some(({ process }) => process === this.actor.process.name);
  }

  get isAtRest(): boolean {
    return this.running === 0 || this.actor.process.state !== 'running';
  }

  /** Must run in a callback of its process, as all that follows. */
  stand(): void {
    const { candidate, service, plan } = this;
    this.watchAsks();
    service.events$.subscribe((event) => {
      if (event.type === 'released' && event.key === candidate.key) this.onReleased(event.fencingToken);
      if (
        event.type === 'error' &&
        event.key === candidate.key &&
        event.error === (this.reign?.reason ?? NO_ERROR)
      )
        this.report('reports the end of its term as an error of its work');
      if (event.type === 'elected' && event.key === candidate.key) {
        this.onElected(event.fencingToken);
        this.resignIn('elected');
      }
    });
    candidate.leader$.subscribe((term) => this.disturb(term, plan.listener));
    candidate.leader$.subscribe((term) => {
      this.announced = term;
      if (!term) return;
      this.begin(term as LeaderTerm);
      this.resignIn('leader$');
    });
    candidate.stand(service, {
      elected: [(term) => this.lead(term)],
      demoted: [
        async (term) => {
          if (this.reign?.term === term) this.reign.isTold = true;
          if (plan.resignsIn === 'demoted' && this.resignsAgain()) await this.resignAtOnce();
          // Its error harms nobody.
          throw new WorkFailed('an @OnDemoted method fails');
        },
      ],
    });
    if (plan.tickMs !== undefined) this.tick(plan.tickMs);
  }

  /** Resolves as `resign()` does. */
  async resign(): Promise<void> {
    const { reign, candidate } = this;
    const { isLeader } = candidate;
    this.say('resigns');
    const resigned = candidate.resign();
    if (candidate.isLeader || (isLeader && reign?.overAtOwn === undefined))
      this.report('still leads when it has resigned');
    await resigned;
    if (isLeader && reign && this.isOn(reign)) this.report('has resigned, and its lock is not given back');
  }

  /** Within a listener, which the library calls in the middle of its own work. */
  private resignIn(where: 'leader$' | 'elected' | 'signal'): void {
    if (this.plan.resignsIn === where && this.resignsAgain()) void this.resign();
  }

  private resignsAgain(): boolean {
    this.resignations += 1;
    return this.resignations <= MAX_RESIGNATIONS;
  }

  async close(): Promise<void> {
    const { candidate } = this;
    this.isClosed = true;
    this.say('stands down');
    const { process } = this.actor;
    const from = process.uptime;
    const trulyFrom = process.trueNow;
    const closed = candidate.close();
    if (candidate.isLeader) this.report('still leads when it is closed');
    await closed;
    const ms = process.uptime - from;
    if (ms > this.service.options.shutdownGraceMs + SLACK_MS && !this.hasPaused(trulyFrom))
      this.report(`closes in ${Math.round(ms)} ms, which is more than its grace`);
  }

  private isOn({ held }: Reign): boolean {
    return held.records.some(({ endedAt }) => endedAt === undefined);
  }

  /** Its asks become calls of the history. */
  private watchAsks(): void {
    const { service, candidate } = this;
    const acquire = service.acquire.bind(service);
    let isDone = false;
    /** A candidate asks with the same signal each time, and the first time as soon as it stands. */
    let ownSignal: AbortSignal | undefined;
    candidate.leader$.subscribe({ complete: () => (isDone = true) });
    service.acquire = async (key, options) => {
      if (key !== candidate.key || isDone) return acquire(key, options);
      // Another candidate of the service may stand for the same name, once this one is closed.
      ownSignal ??= options?.signal;
      if (options?.signal !== ownSignal) return acquire(key, options);
      const call = this.asked();
      try {
        return (this.lock = await acquire(key, options));
      } catch (error) {
        call.error = error;
        call.isOver = true;
        if (!this.isClosed) this.pauseAfterFailure();
        throw error;
      } finally {
        this.settled(call);
      }
    };
  }

  private asked(): CallRecord {
    const { process } = this.actor;
    const { history } = this.stage.parts;
    if (this.isClosed) this.report('stands although it is closed');
    if (this.running > 0) this.report('stands again while work of its last term runs');
    const earlyMs = this.pausedUntilOwn - process.uptime;
    if (earlyMs > SLACK_MS) this.report(`stands again ${Math.round(earlyMs)} ms before its pause is over`);
    this.terms += 1;
    const call: CallRecord = {
      call: this.name,
      process: process.name,
      keys: [nameOf(this.actor, this.candidate.key)],
      under: [],
      waitMs: Infinity,
      isStanding: true,
      askedAt: process.trueNow,
      askedAtOwn: process.monotonic,
      askedAtUptime: process.uptime,
    };
    history.calls.push(call);
    this.stage.waiting.set(call, this.actor);
    this.stage.onEvent('asked', this.actor, [this.candidate.key]);
    return call;
  }

  private settled(call: CallRecord): void {
    const { process } = this.actor;
    call.settledAt = process.trueNow;
    call.settledAtOwn = process.monotonic;
    call.settledAtUptime = process.uptime;
    this.stage.waiting.delete(call);
  }

  private get name(): string {
    return `${this.label} term ${this.terms}`;
  }

  private begin(term: LeaderTerm): void {
    const { actor, lock, candidate, stage } = this;
    const { process } = actor;
    if (!lock) return this.report('is elected without a lock');
    if (this.isClosed) this.report('is elected although it is closed');
    this.electedAt = process.trueNow;
    const record: HoldRecord = {
      call: this.name,
      process: process.name,
      key: nameOf(this.actor, term.key),
      claim: 'exclusive',
      weight: 1,
      permits: 1,
      token: term.fencingToken,
      from: process.trueNow,
      samples: [],
    };
    const belief = { keys: [term.key], key: term.key, signal: lock.signal } as unknown as Lock;
    Object.defineProperty(belief, 'validForMs', {
      get: () => {
        const leads = candidate.term === term;
        if (leads && lock.validForMs <= 0) this.report('believes to lead, and the lease of its lock is over');
        return leads ? lock.validForMs : 0;
      },
    });
    const reign: Reign = {
      term,
      lock,
      held: { actor, lock: belief, signal: lock.signal, records: [record], shared: [], beside: [] },
    };
    this.reign = reign;
    noteService(lock, this.service);
    stage.parts.history.holds.push(record);
    this.say(`leads with ${term.fencingToken}`);
    if (!lock.signal.aborted) stage.add(reign.held);
    const isOverNext = (why: string): void => {
      process.setImmediate(() => {
        if (reign.overAtOwn === undefined) this.report(`goes on with its term, although ${why}`);
      });
    };
    const onOver = (): void => {
      reign.overAtOwn = process.uptime;
      reign.reason = term.signal.reason;
      if (candidate.term === term) this.report('believes to lead, and the signal of its term has aborted');
      if (stage.held.has(reign.held)) stage.sample(reign.held);
      this.resignIn('signal');
    };
    whenAborted(term.signal, onOver);
    whenAborted(lock.shutdownSignal, () => isOverNext('its application closes'));
    whenAborted(lock.signal, () => {
      record.lostBy = (lock.signal.reason as LockLostError).reason;
      stage.end(reign.held, 'lost');
      isOverNext('its lock is lost');
    });
  }

  private onElected(token: number): void {
    if (!this.isClosed && this.reign?.term.fencingToken !== token)
      this.report('is elected, and a listener was not told');
  }

  /** docs of `Leader`: the lock is given back when the work has ended, or after the grace; by then everybody is told. */
  private onReleased(token: number): void {
    const { reign, stage, running } = this;
    const { process } = this.actor;
    if (reign?.term.fencingToken !== token) return;
    if (this.isOn(reign)) {
      const { shutdownGraceMs } = this.service.options;
      const sinceMs = process.uptime - (reign.overAtOwn ?? -Infinity);
      if (reign.overAtOwn === undefined) this.report('gives its lock back, and its signal has not aborted');
      else if (running > 0 && sinceMs < shutdownGraceMs - SLACK_MS)
        this.report(`gives its lock back ${Math.round(sinceMs)} ms after its term, while work of it runs`);
      if (this.announced === reign.term) this.report('gives its lock back, and leader$ has not said so');
      if (!reign.isTold) this.report('gives its lock back, and its @OnDemoted method was not called');
    }
    if (this.candidate.term === reign.term) this.report('leads without its lock');
    stage.end(reign.held, 'released');
  }

  private async lead(term: LeaderTerm): Promise<void> {
    const { reign } = this;
    if (!reign || reign.term !== term) return;
    this.running += 1;
    try {
      for (const step of this.plan.work) await this.do(step, reign);
    } catch (error) {
      this.onWorkFailed(reign, error);
      throw error;
    } finally {
      this.running -= 1;
    }
  }

  private onWorkFailed(reign: Reign, error: unknown): void {
    const { signal } = reign.term;
    if (signal.aborted && error === signal.reason) return;
    const isOn = reign.overAtOwn === undefined;
    const ledMs = this.actor.process.trueNow - this.electedAt;
    // Who has led for long has no reason to pause, and clocks differ.
    if (isOn && ledMs < MAX_PAUSE_MS * 0.9) this.pauseAfterFailure();
    if (!isOn) return;
    this.actor.process.setImmediate(() => {
      if (reign.overAtOwn === undefined) this.report('goes on with its term, although its work has failed');
    });
  }

  private pauseAfterFailure(): void {
    this.pausedUntilOwn = this.actor.process.uptime + FIRST_PAUSE_MS / 2;
  }

  private async do(step: TermStep, { term, lock, held }: Reign): Promise<void> {
    const { process } = this.actor;
    switch (step.do) {
      case 'lead':
        await new Promise<never>((_, reject) =>
          whenAborted(term.signal, () => reject(term.signal.reason as Error)),
        );
        break;
      case 'resign':
        if (this.resignsAgain()) await this.resignAtOnce();
        break;
      default: {
        const asking: Asking = {
          service: this.plan.service,
          how: 'withLock',
          keys: [term.key],
          options: {},
          work: [],
        };
        await new Program(this.stage, this.actor, `${this.name} of ${process.name}`).step(
          step,
          { ...held, lock },
          asking,
        );
      }
    }
  }

  async resignInWork(): Promise<void> {
    await this.candidate.runAsLeader(() => this.resignAtOnce());
  }

  private async resignAtOnce(): Promise<void> {
    const { process } = this.actor;
    const from = process.trueNow;
    await this.candidate.resign();
    if (process.trueNow - from > AT_ONCE_MS && !this.hasPaused(from))
      this.report('resigns in its work, and waits for that');
  }

  private hasPaused(since: number): boolean {
    const { process } = this.actor;
    return this.stage.parts.history.pauses.some((it) => it.process === process.name && it.to >= since);
  }

  private disturb(term: object | undefined, how: CandidatePlan['listener']): void {
    if (!term || how === undefined) return;
    if (how === 'resigns' && !this.resignsAgain()) return;
    if (how === 'throws') throw new WorkFailed('a listener of leader$ fails');
    // Others hear of the election first.
    queueMicrotask(() => void (how === 'resigns' ? this.resign() : this.close()));
  }

  private tick(ms: number): void {
    const { process } = this.actor;
    process.setTimeout(ms, () => {
      if (this.isClosed) return;
      this.look();
      void this.runAsLeader();
      this.tick(ms);
    });
  }

  /** A term whose lease is over has its signal aborted, by a timer or at the first use. */
  private look(): void {
    const { reign, candidate } = this;
    if (!reign) return;
    if (this.stage.held.has(reign.held)) this.stage.sample(reign.held);
    if (reign.overAtOwn !== undefined || candidate.term === reign.term) return;
    const { aborted } = reign.term.signal;
    if (!aborted && reign.lock.signal.aborted) this.report('has lost its lock, and its signal says nothing');
  }

  private async runAsLeader(): Promise<void> {
    const { candidate } = this;
    const before = candidate.term;
    let hasRun = false;
    const result = await candidate.runAsLeader(async (term) => {
      hasRun = true;
      if (candidate.term !== term) this.report('runs work of a leader, and does not lead');
      this.running += 1;
      await new Promise<void>((resolve) => this.actor.process.setTimeout(20, resolve));
      this.running -= 1;
      return 'done';
    });
    if (hasRun && !before) this.report('runs work of a leader, and did not lead when it was asked');
    if (result !== (hasRun ? 'done' : undefined)) this.report(`answers ${String(result)} for its work`);
  }

  private say(text: string): void {
    this.stage.parts.history.say(`${this.actor.process.name} ${this.label} ${text}`);
  }

  private report(text: string): void {
    this.stage.parts.history.violate('leader', `${this.label} of ${this.actor.process.name} ${text}`);
  }
}

function whenAborted(signal: AbortSignal, listener: () => void): void {
  if (signal.aborted) listener();
  else signal.addEventListener('abort', listener);
}
