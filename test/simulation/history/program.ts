import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Lock, WithLockOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import {
  isLockError,
  LockConfigurationError,
  LockShutdownError,
  type LockLostError,
  LockStoreError,
} from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { leaseMargin } from '../../../libs/distributed-lock/src/port/lease-validity.js';
import type { Asking, CallOptionsPlan, Step } from '../plan/plan.js';
import { askLocked } from './ask-locked.js';
import type { CallRecord, HoldRecord } from './history.js';
import { checkHeld, checkList } from './listed.js';
import { useAfterRelease } from './after-release.js';
import { mayBeForcedOut, nowOf, takersOf } from './takeovers.js';
import { listenToLoss } from './abort-listener.js';
import { effectiveOptions } from './effective.js';
import { keyOf, nameOf, prefixOf } from './names.js';
import { sampleOf } from './sample.js';
import { beginExtension, endExtension, leaseLeft } from './extensions.js';
import type { Actor, Held, Stage } from './stage.js';
import { readStream, streamOf } from './stream.js';
import { untilContended, untilLost } from './waits-for-a-signal.js';

/** What the work of a call throws on purpose. */
export class WorkFailed extends Error {}

const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_GRACE_MS = 1000;

/** Runs one call of a plan in its process, and writes down what it does. */
export class Program {
  private nested = 0;
  /** The options of the call itself, without the defaults of its service. */
  private given: CallOptionsPlan = {};

  constructor(
    private readonly stage: Stage,
    private readonly actor: Actor,
    private readonly label: string,
  ) {}

  /** @param outer locks that the flow of this call holds */
  async run(planned: Asking, outer: readonly Held[] = []): Promise<void> {
    const options = effectiveOptions(serviceOf(this.actor, planned.service), planned.options);
    const asking = { ...planned, options };
    this.given = planned.options;
    const { history } = this.stage.parts;
    const call = this.asked(asking, outer);
    history.say(
      `${this.actor.process.name} call ${this.label} ${asking.how} ${asking.keys.join('+')} ${JSON.stringify(planned.options)}`,
    );
    try {
      await this.ask(asking, call, outer);
      this.settled(call);
    } catch (error) {
      this.settled(call, error);
    }
    call.isOver = true;
    this.stage.aborts.get(call)?.cancelTimer();
  }

  /** One step of work under a lock that somebody else has acquired. */
  step(step: Step, held: Held, asking: Asking): Promise<void> {
    return this.do(step, held, asking, []);
  }

  private async ask(asking: Asking, call: CallRecord, outer: readonly Held[]): Promise<void> {
    const service = this.actor.services[asking.service] as LockService;
    const options = this.optionsOf(asking, call);
    const { keys } = asking;
    switch (asking.how) {
      case 'withLock': {
        let held: Held | undefined;
        await service.withLock(keys, options, (lock) =>
          this.underLock((held = this.hold(asking, lock, call, outer)), asking, outer),
        );
        this.checkTold(call, options, held);
        return;
      }
      case 'handler':
      case 'method': {
        const { history } = this.stage.parts;
        const failure = () => new WorkFailed('the method fails');
        return askLocked(
          { asking, options, call, actor: this.actor, history, failure },
          {
            hold: (lock) => this.hold(asking, lock, call, outer),
            run: (held) => this.underLock(held, asking, outer),
            items: (held) => this.items(asking, held, outer),
            leave: (held) => this.stage.end(held, 'released'),
            settle: () => this.settled(call),
          },
        );
      }
      case 'acquire':
      case 'tryAcquire':
      case 'unshared': {
        const { onLost: _, ...acquireOptions } = options;
        const how = asking.how === 'tryAcquire' ? 'tryAcquire' : 'acquire';
        const lock = await service[how](keys, acquireOptions);
        if (!lock) {
          call.isRefused = true;
          return;
        }
        const work = () => this.underLock(this.hold(asking, lock, call, outer), asking, outer);
        try {
          await (asking.how === 'unshared' ? work() : lock.run(work));
        } finally {
          const [first, again] = await Promise.all([lock.release(), lock.release()]);
          if (first !== again)
            this.stage.parts.history.violate(
              'errors',
              `call ${this.label}: its second release says ${again}`,
            );
          if (asking.isUsedAfterwards)
            await useAfterRelease(lock, `call ${this.label}`, this.stage.parts.history);
        }
        return;
      }
      case 'stream': {
        const { stream, work } = asking;
        let held: Held | undefined;
        try {
          const items = await service.withLock(keys, options, (lock) => {
            held = this.hold(asking, lock, call, outer);
            return streamOf(stream?.kind ?? 'generator', this.items(asking, held, outer));
          });
          const count = await readStream(items, stream?.reader ?? { leavesAt: work.length - 1 });
          if (stream?.reader === 'reads' && count < work.length)
            this.stage.parts.history.violate(
              'errors',
              `call ${this.label}: its stream ends after ${count} items`,
            );
        } finally {
          // The work of a stream that is dropped does not begin. One that is left holds its lock until its present step is over.
          if (held?.items) await held.items;
          else if (held) this.stage.end(held, 'released');
        }
      }
    }
  }

  private async underLock(held: Held, asking: Asking, outer: readonly Held[]): Promise<void> {
    try {
      for (const step of asking.work) await this.do(step, held, asking, outer);
    } finally {
      await this.end(held);
    }
  }

  private async *items(asking: Asking, held: Held, outer: readonly Held[]): AsyncGenerator<number> {
    let onEnd = (): void => undefined;
    held.items = new Promise((resolve) => (onEnd = resolve));
    try {
      for (const [i, step] of asking.work.entries()) {
        await this.do(step, held, asking, outer);
        yield i;
      }
    } finally {
      await this.end(held);
      onEnd();
    }
  }

  private hold(asking: Asking, lock: Lock, call: CallRecord, outer: readonly Held[]): Held {
    this.settled(call);
    const { history } = this.stage.parts;
    const { options, service } = asking;
    const keys = asking.keys.map((key) => nameOf(this.actor, key));
    const now = this.actor.process.trueNow;
    const shareOf = (key: string) =>
      outer
        .filter(({ lock: other }) => serviceOf(this.actor, service) === serviceIn(other))
        .flatMap((it) => it.records)
        .find((it) => it.key === key && (it.endedAt === undefined || goesOn(it, lock, this.actor)));
    const shared = keys.flatMap((key) => shareOf(key) ?? []);
    for (const share of shared) {
      if (options.holdAtLeastMs === undefined) continue;
      share.holdAtLeastMs = Math.max(share.holdAtLeastMs ?? 0, now - share.from + options.holdAtLeastMs);
      if (share.holdAtLeastMs > (share.leaseMs ?? Infinity)) share.isShortened = true;
    }
    const records = keys
      .filter((key) => !shareOf(key))
      .map((key): HoldRecord => ({
        call: this.label,
        process: this.actor.process.name,
        key,
        claim: claimOf(options),
        weight: options.weight ?? 1,
        permits: options.permits ?? 1,
        ...(leaseLeft(outer, key, lock.tokenOf(keyOf(this.actor, key))) ??
          (options.leaseMs !== undefined && {
            leaseMs: options.leaseMs,
            fixedUntilOwn: this.actor.process.monotonic + options.leaseMs,
          })),
        // Of several keys each counts from its own grant.
        ...(options.holdAtLeastMs !== undefined &&
          keys.length === 1 && { holdAtLeastMs: options.holdAtLeastMs }),
        token: lock.tokenOf(keyOf(this.actor, key)),
        from: now,
        samples: [],
      }));
    const held: Held = { actor: this.actor, lock, records, shared, beside: [] };
    services.set(lock, serviceOf(this.actor, service));
    history.holds.push(...records);
    if (records.length === 0) return held;
    history.say(
      `${this.actor.process.name} call ${this.label} holds ${records.map(({ key, token }) => `${key} (${token})`).join(', ')} for ${Math.round(lock.validForMs)} ms`,
    );
    this.checkValid(call, lock);
    lock.signal.addEventListener('abort', () => {
      const { reason } = lock.signal.reason as LockLostError;
      // It goes on for its grace. The event of its loss ends it.
      // While it is unsure whether its lease goes on, it believes in none.
      const isTold = held.records.some(({ toldAt }) => toldAt !== undefined);
      if (reason === 'takeover' && (lock.validForMs > 0 || isTold)) return;
      // What it had before a downgrade has ended by then.
      for (const record of held.records)
        if (record.endedAt === undefined) record.isShutDown = reason === 'shutdown';
      this.stage.end(held, 'lost');
    });
    if (!lock.signal.aborted || lock.validForMs > 0) this.stage.add(held);
    if (asking.onAbort) listenToLoss(held, asking.onAbort, serviceOf(this.actor, service), this.stage);
    return held;
  }

  /**
   * Who is let in may believe in its lock, unless its process stood still just then. One write may grant a lock and take it by force,
   * so that its caller is let in with a signal that has aborted.
   */
  private checkValid({ call, askedAt, keys }: CallRecord, lock: Lock): void {
    const { history } = this.stage.parts;
    const { name, trueNow } = this.actor.process;
    const hasPaused = history.pauses.some(
      (it) => it.process === name && it.from <= trueNow && it.to >= askedAt,
    );
    const isForced = history.disturbances.some(
      ({ kind, key = '', at }) => kind === 'force' && keys.includes(key) && at >= askedAt,
    );
    const isTaken = keys.some((key) =>
      takersOf(history, key).some((it) => (it.settledAt ?? Infinity) >= askedAt),
    );
    if (lock.validForMs > 0 || hasPaused || isForced || isTaken) return;
    history.violate('belief', `call ${call} of ${name} is let in with a lock that is over`);
  }

  private async end(held: Held): Promise<void> {
    await Promise.all(held.beside);
    this.checkUnreleased(held);
    this.stage.end(held, 'released');
  }

  /** A lock is held for as long as its work runs, unless it is lost. */
  private checkUnreleased({ lock, records }: Held): void {
    if (records.every(({ endedAt }) => endedAt !== undefined)) return;
    try {
      lock.assertHeld();
    } catch (error) {
      if (!isLockError(error) || error.code !== 'LOCK_NOT_HELD') return;
      const text = `call ${this.label} of ${this.actor.process.name} works on, and its lock is released`;
      this.stage.parts.history.violate('locked', text);
    }
  }

  private async do(step: Step, held: Held, asking: Asking, outer: readonly Held[]): Promise<void> {
    const { process } = this.actor;
    const inner = asking.how === 'unshared' ? outer : [...outer, held];
    switch (step.do) {
      case 'sleep':
        await new Promise<void>((resolve) => process.setTimeout(step.ms, resolve));
        break;
      case 'block':
        this.stage.parts.history.pauses.push(pauseOf(process.name, process.trueNow, step.ms));
        process.block(step.ms);
        break;
      case 'extend':
        for (const { records } of [held, ...outer]) {
          for (const record of records) {
            const { from, holdAtLeastMs = 0 } = record;
            if (from + holdAtLeastMs > process.trueNow + step.ms) record.isShortened = true;
          }
        }
        await this.extend(step.ms, held, outer);
        break;
      case 'downgrade':
        for (const each of [held, ...outer]) if (isShared(each, held)) this.becomeShared(each);
        await this.changing(held.lock.downgrade(), held, outer);
        break;
      case 'throw':
        throw new WorkFailed('the work fails');
      case 'until lost':
        await untilLost(held, step.ms, this.stage.parts.history);
        break;
      case 'until contended':
        await untilContended(held, services.get(held.lock) as LockService, step.ms, this.stage.parts);
        break;
      case 'inspect':
        await this.inspect(held);
        break;
      case 'list':
        await checkList(held, services.get(held.lock) as LockService, this.stage.parts);
        break;
      case 'held':
        checkHeld(held, services.get(held.lock) as LockService, this.stage.parts);
        break;
      case 'nested':
      case 'beside': {
        this.nested += 1;
        const call = new Program(this.stage, this.actor, `${this.label}.${this.nested}`).run(
          step.call,
          inner,
        );
        if (step.do === 'nested') await call;
        else held.beside.push(call);
      }
    }
    this.assertHeld(held, asking);
    this.sampleAll(held, outer);
  }

  /** docs/guarantees.md, safety: a call whose work succeeded although its lock was lost rejects. */
  private checkTold({ call }: CallRecord, { onLost }: WithLockOptions, held: Held | undefined): void {
    const lost = held?.records.find(({ end }) => end === 'lost');
    if (!lost || onLost === 'ignore') return;
    this.stage.parts.history.violate('loss', `call ${call} succeeds although it has lost ${lost.key}`);
  }

  /**
   * The store names each holder that still believes in its lock once the answer is there. Of several servers some answer, and
   * those need not have the lock.
   */
  private async inspect({ actor, lock, records }: Held): Promise<void> {
    const { history, backend } = this.stage.parts;
    const record = records.find(({ owner }) => owner !== undefined);
    const key = record ? keyOf(actor, record.key) : lock.key;
    const service = services.get(lock) as LockService;
    const snapshot = await service.inspect(key).catch((error: unknown) => {
      if (!(error instanceof LockStoreError || error instanceof LockShutdownError)) throw error;
      return undefined;
    });
    if (!record || snapshot === undefined || record.endedAt !== undefined || lock.validForMs <= 0) return;
    // What servers have lost, by force or by a crash, its holder believes in until it is told.
    const isDisturbed = history.disturbances.some(({ kind }) =>
      ['force', 'forget', 'crash server'].includes(kind),
    );
    if (mayBeForcedOut(history, record, nowOf(actor), Infinity)) return;
    if (isDisturbed || backend.servers.length > 1 || snapshot?.holders.includes(record.owner as string))
      return;
    const names = snapshot?.holders.join(', ') ?? 'nobody';
    history.violate(
      'belief',
      `call ${record.call} of ${actor.process.name} believes in ${key}, and the store names ${names}`,
    );
  }

  /** The lock, its validity and the flow that it runs in say the same. */
  private assertHeld({ lock, records, isLeft }: Held, { how, service, keys }: Asking): void {
    if (isLeft) return;
    const [key = '', ...others] = keys;
    const answers: [asked: string, isHeld: boolean][] = [
      ['lock.validForMs', lock.validForMs > 0],
      ['lock.assertHeld()', passes(() => lock.assertHeld())],
    ];
    // A flow may have one of several keys by another call.
    if (how !== 'unshared' && others.length === 0)
      answers.push(['assertHeld(key)', passes(() => serviceOf(this.actor, service).assertHeld(key))]);
    if (answers.every(([, isHeld]) => isHeld === answers[0]?.[1])) return;
    const call = records[0]?.call ?? this.label;
    const text = answers.map(([asked, isHeld]) => `${asked}: ${isHeld}`).join(', ');
    this.stage.parts.history.violate('belief', `call ${call} is told of ${key}: ${text}`);
  }

  /** docs/guarantees.md, fixed leases: once it resolves, the lease lasts for `ms`, and no longer. */
  private async extend(ms: number, held: Held, outer: readonly Held[]): Promise<void> {
    const { process } = this.actor;
    const { lock } = held;
    const records = [held, ...outer]
      .filter((it) => it === held || isShared(it, held))
      .flatMap((it) => it.records)
      .filter((it) => it.leaseMs !== undefined && lock.keys.includes(keyOf(this.actor, it.key)));
    const askedAt = process.monotonic;
    const trulyAskedAt = process.trueNow;
    for (const record of records) beginExtension(record);
    let isExtended = false;
    await this.changing(
      lock.extend(ms).then(() => void (isExtended = true)),
      held,
      outer,
    );
    const now = process.monotonic;
    const wasAlone = records.map((record) => endExtension(record, now + ms, isExtended)).every(Boolean);
    // With a session it lasts no longer than that, until the next renewal.
    const { history, hasSessions } = this.stage.parts;
    const hasPaused = history.pauses.some((it) => it.process === process.name && it.to >= trulyAskedAt);
    // By both clocks of the machine, whose speeds differ by less than 1 %.
    const leastMs = ms - leaseMargin(ms) - 1.01 * (now - askedAt) - 2;
    // Who is told of a takeover has the rest of the grace, which may have begun before this call was let in.
    const isTakenOver = takersOf(history, nameOf(this.actor, lock.key)).length > 0;
    const isHeld = records.every(({ endedAt, isLengthUnsure }) => endedAt === undefined && !isLengthUnsure);
    if (!isExtended || hasPaused || !isHeld || !wasAlone || hasSessions || isTakenOver) return;
    if (lock.keys.length > 1 || lock.validForMs >= leastMs) return;
    const text = `call ${this.label} of ${process.name} has extended ${lock.key} by ${ms} ms, and it is valid for ${Math.round(lock.validForMs)} ms`;
    history.violate('belief', text);
  }

  /** Until the reply only the shorter of both leases is believed in. */
  private async changing(change: Promise<void>, held: Held, outer: readonly Held[]): Promise<void> {
    this.sampleAll(held, outer);
    try {
      await change;
    } catch (error) {
      // A nested call shares a hold that cannot be changed so. Without a reply the lock is held all the same.
      if (!(error instanceof LockConfigurationError || error instanceof LockStoreError)) throw error;
    } finally {
      this.sampleAll(held, outer);
    }
  }

  private sampleAll(held: Held, outer: readonly Held[]): void {
    for (const each of [held, ...outer]) if (this.stage.held.has(each)) this.stage.sample(each);
  }

  /** From the request on readers may hold beside it. */
  private becomeShared(held: Held): void {
    const sample = sampleOf(held.actor.process, held.lock);
    const now = sample.at;
    const records = held.records.map((record): HoldRecord => {
      if (record.endedAt !== undefined) return record;
      record.endedAt = now;
      record.end = 'downgraded';
      const { endedAt: _at, end: _end, holdAtLeastMs: _least, ...rest } = record;
      return { ...rest, claim: 'shared', from: now, samples: [sample] };
    });
    this.stage.parts.history.holds.push(...records.filter((it) => it.endedAt === undefined));
    held.records = records;
  }

  private asked({ keys, options, service }: Asking, outer: readonly Held[]): CallRecord {
    const { history, backend, hasSessions } = this.stage.parts;
    const { waitMs = DEFAULT_WAIT_MS } = options;
    const names = keys.map((key) => nameOf(this.actor, key));
    const prefix = prefixOf(this.actor);
    const holders = hasSessions && waitMs === 0 ? backend.holdersOf?.(names[0] ?? '') : undefined;
    const own = serviceOf(this.actor, service);
    const under = outer.filter(({ lock }) => serviceIn(lock) === own).flatMap(({ records }) => records);
    const call: CallRecord = {
      call: this.label,
      process: this.actor.process.name,
      keys: names,
      ...(prefix !== '' && { prefix }),
      service,
      under,
      waitMs: waitMs === 'Infinity' ? Infinity : waitMs,
      ...(options.fair && { isFair: true }),
      ...(options.onBusy === 'takeover' && { graceMs: options.graceMs ?? DEFAULT_GRACE_MS }),
      ...(holders && { holdersThen: [...holders.keys()] }),
      askedAt: this.actor.process.trueNow,
      askedAtOwn: this.actor.process.monotonic,
      askedAtUptime: this.actor.process.uptime,
    };
    history.calls.push(call);
    this.stage.waiting.set(call, this.actor);
    this.stage.onEvent('asked', this.actor, keys);
    return call;
  }

  private settled(call: CallRecord, error?: unknown): void {
    const { kernel, history } = this.stage.parts;
    if (error !== undefined) {
      call.error = error;
      history.say(`${call.process} call ${call.call} failed: ${String((error as Error).message ?? error)}`);
    }
    history.movedAt = kernel.now;
    if (call.settledAt !== undefined) return;
    call.settledAt = this.actor.process.trueNow;
    call.settledAtOwn = this.actor.process.monotonic;
    call.settledAtUptime = this.actor.process.uptime;
    this.stage.waiting.delete(call);
  }

  private optionsOf({ how, abortAfterMs }: Asking, call: CallRecord): WithLockOptions {
    const { waitMs, ...rest } = this.given;
    if (how === 'tryAcquire' && waitMs === undefined) Object.assign(call, { waitMs: 0 });
    return {
      ...rest,
      ...(waitMs !== undefined && { waitMs: waitMs === 'Infinity' ? Infinity : waitMs }),
      ...(abortAfterMs !== undefined && { signal: this.signalAfter(abortAfterMs, call) }),
    };
  }

  private signalAfter(ms: number, call: CallRecord): AbortSignal {
    const controller = new AbortController();
    const cancelTimer = this.actor.process.setTimeout(ms, () =>
      controller.abort(new WorkFailed('the call was aborted')),
    );
    this.stage.aborts.set(call, { controller, cancelTimer });
    return controller.signal;
  }
}

/** Of which service a lock is, so that a nested call of another service is not taken for a share. */
const services = new WeakMap<Lock, LockService>();

export function noteService(lock: Lock, service: LockService): void {
  services.set(lock, service);
}

function serviceIn(lock: Lock): LockService | undefined {
  return services.get(lock);
}

function serviceOf(actor: Actor, service: number): LockService {
  return actor.services[service] as LockService;
}

function passes(asserts: () => unknown): boolean {
  try {
    asserts();
    return true;
  } catch (error) {
    if (!isLockError(error)) throw error;
    return false;
  }
}

function isShared(outer: Held, held: Held): boolean {
  return (
    serviceIn(outer.lock) === serviceIn(held.lock) &&
    outer.lock.keys.some((key) => held.lock.keys.includes(key))
  );
}

function claimOf({ mode, permits }: CallOptionsPlan): HoldRecord['claim'] {
  if (permits !== undefined) return 'permits';
  return mode === 'shared' ? 'shared' : 'exclusive';
}

function pauseOf(process: string, from: number, ms: number) {
  return { process, kind: 'block', from, to: from + ms } as const;
}

/** The reader of its stream has left, and nested calls go on under its lock. */
function goesOn({ isLeft, key, token }: HoldRecord, lock: Lock, actor: Actor): boolean {
  return isLeft === true && lock.tokenOf(keyOf(actor, key)) === token;
}
