import type { CallOptions } from '../lock/lock.js';
import type { Keys } from '../lock/request/key-claim.js';
import type { LockService } from '../lock/lock.service.js';
import { CALL_RULES } from '../lock/request/lock-options.js';
import {
  injectedProperty,
  injectLockService,
  mockError,
  noRegistrationError,
} from '../distributed-lock.tokens.js';
import { timeOfDay } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import { keyPlanOf, newKeySite } from '../keys/key-plan.js';
import { KeyTemplate } from '../keys/key-template.js';
import { type AnyClass, type AnyFunction, refuseStandard, wrapMethod } from '../nest/metadata.js';
import { declaringClass } from '../nest/parameter-names.js';
import { LockConfigurationError, LockShutdownError, LockWaitTimeoutError } from '../port/lock.errors.js';
import { checkOptions, describeMs, type OptionRules, RULE } from '../port/option-checks.js';
import { JobLine, type JobWorker } from './job-line.js';

/** Options of `@LockedJob`. */
export interface LockedJobOptions extends Pick<CallOptions, 'leaseMs' | 'site'> {
  /**
   * After how many ms BullMQ gives a job that was put back to a worker again if nothing wakes it before; default 15 000. A job is
   * woken as soon as its turn comes, so this matters only if the process that would wake it has died.
   */
  readonly maxDelayMs?: number;
  /** The registration of `DistributedLockModule` to use; default: the one without a name. */
  readonly name?: string;
}

const RULES: OptionRules<LockedJobOptions> = {
  maxDelayMs: [(value) => Number.isInteger(value) && Number(value) >= 1, '1 ms or more', describeMs],
  name: RULE.registration,
  leaseMs: CALL_RULES.acquire.leaseMs,
  site: CALL_RULES.acquire.site,
};
const MAX_DELAY_MS = 15_000;

/**
 * The pause before a job asks for its turn again, while an older job that another worker has just fetched has not joined its
 * line.
 */
const ASK_AGAIN_MS = 5;
const MAX_QUESTIONS = 20;
/**
 * How long the job at the head of the line waits for the lock and keeps its worker: the release by the previous job may be on its
 * way.
 */
const WAIT_MS = 100;

/** The parts of a BullMQ job that `@LockedJob` uses. */
interface Job {
  readonly id?: string;
  readonly timestamp: number;
  moveToDelayed(timestamp: number, token?: string): Promise<void>;
  promote(): Promise<void>;
}

interface JobClass {
  fromId(queue: JobWorker, id: string): Promise<Job | undefined>;
}

/** A `WorkerHost` of `@nestjs/bullmq`. */
interface Host {
  readonly worker: JobWorker;
}

/**
 * Tells BullMQ, which recognises it by its name, that the job was moved to the delayed jobs. That counts as no failure and no
 * attempt, and the worker takes the next job.
 */
class DelayedError extends Error {
  override readonly name = 'DelayedError';
}

/**
 * For `process` of a `WorkerHost` of `@nestjs/bullmq`: one job at a time for each key, in the order in which the jobs were added, without
 * holding a worker for those that wait.
 *
 * A job whose key is busy goes back to the queue, and its worker takes a job of another key. That is no failure and no attempt.
 * As soon as the previous job of the key has ended, a worker gets this one again. If a worker dies, BullMQ's stall check starts
 * its job again, and the other jobs of the key wait for that job.
 *
 * The order is that of adding. A job with a delay, a priority or a retry takes its place when a worker first gets it; while a job
 * waits for its retry, the others of its key go on. The key is a template of `job`, as `@Locked` takes it on other methods.
 *
 * @throws LockConfigurationError for wrong options, when the class is loaded
 * @example
 * ```ts
 * import { Processor, WorkerHost } from '@nestjs/bullmq';
 * import type { Job } from 'bullmq';
 * import { LockedJob } from 'nestjs-distributed-lock/bullmq';
 *
 * @Processor('invoices', { concurrency: 8 })
 * export class InvoiceWorker extends WorkerHost {
 *   @LockedJob('customer:<job.data.customerId>')
 *   async process(job: Job<{ customerId: string }>): Promise<void> {}
 * }
 * ```
 */
export function LockedJob(
  key: string | ((job: any) => string),
  options: LockedJobOptions = {},
): MethodDecorator {
  const source = typeof key === 'function' ? key : [KeyTemplate.compile(key)];
  return (target, method, descriptor: PropertyDescriptor | undefined) => {
    refuseStandard('@LockedJob', method);
    const declaredIn = declaringClass(target);
    const where = `@LockedJob on ${declaredIn.name}.${String(method)}`;
    const original = descriptor?.value as AnyFunction | undefined;
    if (!descriptor || !original || method !== 'process') {
      throw new LockConfigurationError(`${where}: put it on the method process of a WorkerHost.`);
    }
    checkOptions(where, options, RULES);
    const site = newKeySite({ target, method, original }, { decorator: '@LockedJob', key: source });
    injectLockService(target, options.name);
    descriptor.value = wrapMethod(original, (self, args) => {
      const host = self as Host;
      const locks = (self as Readonly<Record<symbol, LockService | undefined>>)[
        injectedProperty(options.name)
      ];
      if (!locks) throw noRegistrationError(options.name, { where });
      if (!ServiceInternals.areIn(locks)) throw mockError(options.name, where, 'is a mock');
      const plan = keyPlanOf(host.constructor as AnyClass, site);
      const [job, token] = args as [Job, string | undefined];
      const run = new JobRun({ host, locks, job, token, key: oneKey(plan.keysOfCall(args), where), options });
      return run.start(() => Reflect.apply(original, self, args) as unknown);
    });
  };
}

function oneKey(keys: Keys, where: string): string {
  const [key, another] = [keys].flat();
  if (typeof key === 'string' && another === undefined) return key;
  throw new LockConfigurationError(`${where}: it locks one key, and its template made several.`);
}

/** One delivery of a job to `process`. */
class JobRun {
  private readonly line: JobLine;
  private readonly id: string;

  constructor(
    private readonly given: {
      readonly host: Host;
      readonly locks: LockService;
      readonly job: Job;
      readonly token: string | undefined;
      readonly key: string;
      readonly options: LockedJobOptions;
    },
  ) {
    this.line = new JobLine(given.host.worker, given.key);
    this.id = String(given.job.id);
  }

  /**
   * Works under the lock, or puts the job back.
   *
   * @throws DelayedError if the job was put back; the error of the work
   */
  async start(work: () => unknown): Promise<unknown> {
    if (!(await this.isTurn())) return this.putBack('behind');
    const { key, locks, options } = this.given;
    const call = { waitMs: WAIT_MS, leaseMs: options.leaseMs, site: options.site ?? `job ${this.id}` };
    let hasLock = false;
    try {
      return await locks.withLock(key, call, () => {
        hasLock = true;
        return work();
      });
    } catch (error) {
      if (hasLock || !(error instanceof LockWaitTimeoutError)) throw error;
    } finally {
      // Leave after the release, so that the next job finds the lock free.
      if (hasLock) await this.leave();
    }
    return this.putBack('busy');
  }

  private async isTurn(): Promise<boolean> {
    const { job, locks } = this.given;
    const { clock } = locks.options;
    for (let questions = 0; questions < MAX_QUESTIONS; questions += 1) {
      const turn = await this.line.join({ id: this.id, timestamp: job.timestamp });
      if (turn !== 'ask again') return turn === 'go';
      await new Promise<void>((resolve) => clock.after(ASK_AGAIN_MS, resolve));
    }
    // The worker of the older job has probably died. Begin, because BullMQ's stall check takes too long to wait for.
    return true;
  }

  /** @throws DelayedError always: BullMQ then takes the next job */
  private async putBack(why: 'behind' | 'busy'): Promise<never> {
    const { job, token, options, locks, key } = this.given;
    const { maxDelayMs = MAX_DELAY_MS } = options;
    await job.moveToDelayed(timeOfDay(locks.options.clock) + maxDelayMs, token);
    if (why === 'behind') {
      // If the previous job left the line before this one was delayed, it could not wake this one.
      if ((await this.line.head()) === this.id) await this.wake(this.id);
    } else {
      // The lock is held outside of this queue, or its holder has died. Wait for the lock in the background, without a worker.
      const waiting = locks.withLock(key, { waitMs: maxDelayMs, site: 'a job that waits' }, () => undefined);
      inBackground(
        waiting.then(() => this.wake(this.id)),
        // After a timeout or a shutdown there is nothing to do: BullMQ gives the job to a worker again after `maxDelayMs`.
        (error) =>
          error instanceof LockWaitTimeoutError || error instanceof LockShutdownError || this.report(error),
      );
    }
    throw new DelayedError(`"${key}" is busy: the job waits for its turn.`);
  }

  /** Leaves the line and wakes the next job. A failure must not replace the result of the work, so it becomes an event. */
  private async leave(): Promise<void> {
    try {
      const next = await this.line.leave(this.id);
      if (next !== undefined) await this.wake(next);
    } catch (error) {
      this.report(error);
    }
  }

  /** Moves a delayed job to those that workers take. If it is not delayed, a worker has it already. */
  private async wake(id: string): Promise<void> {
    const { host, job } = this.given;
    const found = await (job.constructor as unknown as JobClass).fromId(host.worker, id);
    await found?.promote().catch((error: unknown) => {
      if (!/not in the delayed state/i.test(String(error))) throw error;
    });
  }

  private report(error: unknown): void {
    const { locks, key } = this.given;
    ServiceInternals.of(locks).events.emit({ type: 'error', key, during: 'waking the next job', error });
  }
}
