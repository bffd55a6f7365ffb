import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { WithLockOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import { isLockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Asking, CallOptionsPlan, Step } from '../plan/plan.js';
import { useAfterRelease } from './after-release.js';
import { askLocked } from './ask-locked.js';
import { optionsOf, recordCall, settle } from './call-records.js';
import { claimedKeys } from './claims.js';
import { isShared, serviceIn, serviceOf, type Caller } from './caller.js';
import { effectiveOptions } from './effective.js';
import type { CallRecord } from './history.js';
import { becomeShared, recordHold } from './hold-records.js';
import { checkHeld, checkList } from './listed.js';
import { changing, checkAnswers, extend, inspect, sampleAll } from './lock-steps.js';
import { passOn } from './pass-on.js';
import type { Actor, Held, Stage } from './stage.js';
import { readStream, streamOf } from './stream.js';
import { untilContended, untilLost } from './waits-for-a-signal.js';
import { WorkFailed } from './work-failed.js';

/** Runs one call of a plan in its process, and writes down what it does. */
export class Program implements Caller {
  private nested = 0;

  constructor(
    readonly stage: Stage,
    readonly actor: Actor,
    readonly label: string,
  ) {}

  /** @param outer locks that the flow of this call holds */
  async run(planned: Asking, outer: readonly Held[] = []): Promise<void> {
    const options = effectiveOptions(serviceOf(this.actor, planned.service), planned.options);
    const asking = { ...planned, options };
    const { history } = this.stage.parts;
    const call = recordCall(this, asking, outer);
    history.say(
      `${this.actor.process.name} call ${this.label} ${asking.how} ${asking.keys.join('+')} ${JSON.stringify(planned.options)}`,
    );
    try {
      await this.ask(asking, planned.options, call, outer);
      settle(this, call);
    } catch (error) {
      settle(this, call, error);
    }
    call.isOver = true;
    this.stage.aborts.get(call)?.cancelTimer();
  }

  /** One step of work under a lock that somebody else has acquired. */
  step(step: Step, held: Held, asking: Asking): Promise<void> {
    return this.do(step, held, asking, []);
  }

  /** @param given the options of the call itself, without the defaults of its service */
  private async ask(
    asking: Asking,
    given: CallOptionsPlan,
    call: CallRecord,
    outer: readonly Held[],
  ): Promise<void> {
    const service = this.actor.services[asking.service] as LockService;
    const options = optionsOf(this, asking, given, call);
    const keys = claimedKeys(asking);
    switch (asking.how) {
      case 'withLock': {
        let held: Held | undefined;
        await service.withLock(keys, options, (lock) =>
          this.underLock((held = recordHold(this, asking, lock, call, outer)), asking, outer),
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
            hold: (lock) => recordHold(this, asking, lock, call, outer),
            run: (held) => this.underLock(held, asking, outer),
            items: (held) => this.items(asking, held, outer),
            leave: (held) => this.stage.end(held, 'released'),
            settle: () => settle(this, call),
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
        const work = () => this.underLock(recordHold(this, asking, lock, call, outer), asking, outer);
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
            held = recordHold(this, asking, lock, call, outer);
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
      case 'keep for':
        for (const { records } of [held, ...outer]) {
          for (const record of records) {
            const { from, holdAtLeastMs = 0 } = record;
            if (from + holdAtLeastMs > process.trueNow + step.ms) record.isShortened = true;
          }
        }
        await extend(this, step, held, outer);
        break;
      case 'downgrade':
        for (const each of [held, ...outer]) if (isShared(each, held)) becomeShared(this, each);
        await changing(this, held.lock.downgrade(), held, outer);
        break;
      case 'throw':
        throw new WorkFailed('the work fails');
      case 'until lost':
        await untilLost(held, step.ms, this.stage.parts.history);
        break;
      case 'until contended':
        await untilContended(held, serviceIn(held.lock) as LockService, step.ms, this.stage.parts);
        break;
      case 'inspect':
        await inspect(this, held);
        break;
      case 'list':
        await checkList(held, serviceIn(held.lock) as LockService, this.stage.parts);
        break;
      case 'held':
        checkHeld(held, serviceIn(held.lock) as LockService, this.stage.parts);
        break;
      case 'pass on':
        await passOn(this, step, held);
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
    checkAnswers(this, held, asking);
    sampleAll(this, held, outer);
  }

  /** docs/guarantees.md, safety: a call whose work succeeded although its lock was lost rejects. */
  private checkTold({ call }: CallRecord, { onLost }: WithLockOptions, held: Held | undefined): void {
    const lost = held?.records.find(({ end }) => end === 'lost');
    if (!lost || onLost === 'ignore') return;
    this.stage.parts.history.violate('loss', `call ${call} succeeds although it has lost ${lost.key}`);
  }
}

function pauseOf(process: string, from: number, ms: number) {
  return { process, kind: 'block', from, to: from + ms } as const;
}
