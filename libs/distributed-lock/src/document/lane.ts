import type { Chance, Clock, Delays } from '../common/clock.js';
import { nextTurn } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { asUnknownError } from '../connection/connection-errors.js';
import type { AcquireRequest, Notification } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import type { StoredWaiter, TimedReading } from './document.js';
import { leavesNote } from './document.js';
import { type ActingClient, KeyState } from './key-state.js';
import { LaneOwners, type OwnersContext } from './lane-owners.js';
import { type PollPriority, sessionEndedError } from './timed-register.js';
import type { Requests, TimedRegister, TimedReply } from './timed-register.js';

/** The lane pauses before each further request after this many. */
const TRIES_WITHOUT_PAUSE = 4;
/** The lane sends this many requests however long they take, and a further one only within `commandTimeoutMs`. */
const MIN_TRIES = 2;
/** After losing this many swaps, waiters that share their write with other tasks leave notes. The next writer of any client merges them. */
const SWAPS_WITHOUT_NOTES = 2;
const MAX_PAUSE_MS = 8;

/**
 * Executes the tasks of one client on one key, with one request to the store at a time:
 *
 * 1. `run` adds a task, an acquire, a renewal or a release. Tasks that come while a request is under way wait for its reply.
 * 2. `executeAll` takes all tasks that wait, and `execute` applies them in order to the newest document that the lane has seen.
 * 3. The store writes the result by one swap, if no other client was first. Otherwise the lane applies the same tasks to the
 *    document of the other client, and tries again.
 * 4. As soon as the document is written, each task gets its reply. A task that changes nothing gets it from a document that was
 *    read for it.
 * 5. `compare` looks in each newer document for what others did to the owners of this client, and notifies these owners.
 */
export class Lane {
  readonly owners: LaneOwners;
  private tasks: Task[] = [];
  private isRunning = false;
  private isScheduled = false;
  /** The newest reading. One from a message may lack notes (`mayLackNotes`). */
  private newest: TimedReading | undefined;
  private interest: PollPriority | undefined;
  /** Tasks under way have left notes, so their owners wait in the back end, whatever happens to the next write. */
  private hasNotes = false;
  /** The session has ended since the tasks under way began. */
  private hasSessionEnded = false;

  constructor(
    private readonly name: string,
    /** `name` without the `keyPrefix`. */
    private readonly key: string,
    private readonly context: LaneContext,
  ) {
    this.owners = new LaneOwners(key, context);
  }

  /**
   * Executes a task.
   *
   * @param apply changes the state. The lane calls it again, with a newer state, each time another client was first. It returns a
   * function that makes the reply, which the lane calls as soon as the changed state is written, before it compares its owners with
   * that document.
   * @throws LockStoreError when the back end did not execute it, or did not say so; and whatever `apply` throws
   */
  run<Reply>(
    apply: (state: KeyState) => (executed: Executed) => Reply,
    { request, mayWait = false, isRelease = false }: TaskOptions = {},
  ): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.tasks.push({ apply, request, isRelease, resolve, reject });
      if (mayWait && this.context.register.isRemote) this.schedule();
      else this.start();
    });
  }

  /** The client has seen the document otherwise than by a task of this lane. */
  onReading(timed: TimedReading): void {
    this.keepNewest(timed);
    this.compare();
  }

  /**
   * Reads the document, so that holders of this client learn whether they still hold. If the store does not reply, they learn it by
   * their next renewal.
   */
  async readAgain(): Promise<void> {
    await this.run(() => () => undefined).catch(() => undefined);
  }

  /** Forgets the document and all holders, because what this client wrote ends with its session. */
  onSessionEnd(): void {
    this.newest = undefined;
    this.hasSessionEnded = true;
    for (const notification of this.owners.onSessionEnd()) this.context.notify(notification);
    this.closeIfIdle();
  }

  /** The owner neither holds nor waits any more, whatever the document says. */
  forget(owner: string): void {
    this.owners.onGone(owner);
    this.closeIfIdle();
  }

  /** A lane without tasks and owners is removed. */
  closeIfIdle(): void {
    if (this.isRunning || this.tasks.length > 0 || !this.owners.isEmpty) return;
    this.watch(undefined);
    this.context.onIdle(this.name);
  }

  private schedule(): void {
    if (this.isRunning || this.isScheduled) return;
    this.isScheduled = true;
    nextTurn(this.context.clock, () => {
      this.isScheduled = false;
      this.start();
    });
  }

  private start(): void {
    if (this.isRunning || this.tasks.length === 0) return;
    this.isRunning = true;
    inBackground(this.executeAll(), () => undefined);
  }

  private async executeAll(): Promise<void> {
    while (this.tasks.length > 0) {
      const tasks = this.tasks;
      this.tasks = [];
      this.hasNotes = false;
      try {
        await this.execute(tasks);
      } catch (error) {
        // Tasks that came meanwhile fail, too: they would wait for the same failing back end, for as long again.
        this.fail([...tasks, ...this.tasks.splice(0)], error);
      }
      // A newer document may have come before the reply that made an owner a waiter or a holder, so compare once more.
      this.compare();
    }
    this.isRunning = false;
    this.closeIfIdle();
  }

  private fail(tasks: readonly Task[], error: unknown): void {
    const isUnsure = this.hasNotes && error instanceof LockStoreError;
    for (const task of tasks) task.reject(isUnsure ? asUnknownError(error) : error);
  }

  /**
   * Rejects the tasks, because other clients were first with each write for too long. Releases go on, together with the tasks that
   * came meanwhile: nobody gets the lock before they are written.
   */
  private giveUp({ left, tries }: Round, ms: number): void {
    const error = new LockStoreError(
      `Could not write the lock "${this.key}": other clients have written it first, ${tries} times in ${Math.round(ms)} ms. Try again; if it goes on, use fewer processes on this key.`,
      this.key,
      'unready',
    );
    this.tasks = [...left.filter(({ isRelease }) => isRelease), ...this.tasks];
    const tried = left.filter(({ isRelease }) => !isRelease);
    this.fail(tried, error);
  }

  private async execute(tasks: readonly Task[]): Promise<void> {
    const { register, clock, delays, chance } = this.context;
    this.hasSessionEnded = false;
    const round: Round = { left: tasks, tries: 0, lostSwaps: 0, firstReplyAt: 0 };
    for (; round.left.length > 0; round.tries++) {
      if (round.tries === 1) round.firstReplyAt = clock.now();
      // 1. After several tries, pause for a random time, so that clients that lose their writes to each other fall out of step.
      if (round.tries >= TRIES_WITHOUT_PAUSE && register.isRemote)
        await delays.wait(chance.random() * MAX_PAUSE_MS);
      this.checkSession();
      // 2. Take the document of the last reply, or else the newest one that this lane remembers. Apply the tasks only if the next
      //    step depends on their outcome: a take needs no document.
      const { left } = round;
      const requests = requestsOf(left);
      const known = (round.fresh ?? this.newest) as TimedReading;
      let applied: Applied | undefined;
      const apply = (): Applied => (applied ??= this.applyTo(known, left));
      // 3. Decide whether a request is needed, and which one.
      const action = nextAction({
        acquiring: requests.length === 0 ? 'none' : requests.length < left.length ? 'some' : 'all',
        document: !known ? 'not known' : known.reading.version === undefined ? 'absent' : 'present',
        isFresh: round.fresh !== undefined,
        mustLeaveNotes: round.lostSwaps >= SWAPS_WITHOUT_NOTES && !this.hasNotes && left.some(willLeaveNote),
        isChanged: () => apply().state.isChanged,
      });
      // 4. Give up if the next request would come too late. Replying needs none, so it is never too late for that.
      const triedMs = action === 'answer' ? 0 : this.triedMs(round);
      if (triedMs > register.commandTimeoutMs) return this.giveUp(round, triedMs);
      // 5. Send it. The reply settles tasks, or brings a newer document to which those that are left are applied again.
      switch (action) {
        case 'take':
          this.onTaken(round, await register.take(this.name, requests));
          break;
        case 'read':
          round.fresh = this.onReply(await register.read(this.name));
          break;
        case 'swap':
          this.onSwapped(
            round,
            apply(),
            await register.swap({ name: this.name, known, state: apply().state, requests }),
          );
          break;
        case 'answer':
          this.settleAll(round, apply());
      }
    }
  }

  /** If the document was free, the first task that acquires has taken it. Otherwise the tasks that may wait have left notes beside it. */
  private onTaken(round: Round, { isDone, timed }: TimedReply): void {
    round.fresh = this.onReply(timed);
    if (!isDone) return this.onNotesLeft(round.left.filter(willLeaveNote));
    const taker = round.left.find(({ request }) => request) as Task;
    this.settleOf(taker, this.stateIn(round.fresh))(this.executedBy(round.fresh));
    round.left = round.left.filter((task) => task !== taker);
  }

  /**
   * Makes these owners waiters now, and not only when all tasks are settled: as soon as its note is there, another client may grant
   * an owner the lock. The notification of that grant may even have come before this reply.
   */
  private onNotesLeft(tasks: readonly Task[]): void {
    if (tasks.length === 0) return;
    this.hasNotes = true;
    for (const { request } of tasks) this.owners.onNoteLeft(request as AcquireRequest);
    this.compare();
  }

  private onSwapped(round: Round, applied: Applied, { isDone, timed }: TimedReply): void {
    round.fresh = this.onReply(timed);
    if (isDone) return this.settleAll(round, applied);
    round.lostSwaps += 1;
    this.compare();
  }

  private settleAll(round: Round, { settles }: Applied): void {
    const executed = this.executedBy(round.fresh as TimedReading);
    for (const settle of settles) settle(executed);
    round.left = [];
  }

  private applyTo(timed: TimedReading, tasks: readonly Task[]): Applied {
    const state = this.stateIn(timed);
    return { state, settles: tasks.map((task) => this.settleOf(task, state)) };
  }

  private settleOf({ apply, resolve, reject }: Task, state: KeyState): Settle {
    try {
      const toReply = apply(state);
      return (executed) => resolve(toReply(executed) as never);
    } catch (error) {
      return () => reject(error);
    }
  }

  private executedBy(timed: TimedReading): Executed {
    const { reading, sentAt } = timed;
    const { now: executedAt, validUntil = Infinity } = reading;
    return { sentAt, executedAt, validUntil, waiting: this.queueIn(timed).length };
  }

  /** The owners that wait: in the queue of the document, or by a note beside it. */
  private queueIn(timed: TimedReading): readonly StoredWaiter[] {
    const { document, notes } = timed.reading;
    return notes.length > 0 ? this.stateIn(timed).document.queue : document.queue;
  }

  private stateIn(timed: TimedReading): KeyState {
    return new KeyState(timed.reading, this.nowIn(timed), this.context.client);
  }

  private onReply(timed: TimedReading): TimedReading {
    this.checkSession();
    return this.keepNewest(timed);
  }

  /**
   * @throws LockStoreError when the session ended since the tasks began, because the document that they were applied to has
   * changed
   */
  private checkSession(): void {
    if (this.hasSessionEnded) throw sessionEndedError(this.key, 'unknown');
  }

  private keepNewest(timed: TimedReading): TimedReading {
    if (!this.newest || isNewer(timed, this.newest)) this.newest = timed;
    return timed;
  }

  /** The store's time, at the earliest. */
  private nowIn({ reading, receivedAt }: TimedReading): number {
    return reading.now + this.context.clock.now() - receivedAt;
  }

  /** Notifies the owners of this client of what others did to them in the newest document. */
  private compare(): void {
    const { owners, newest } = this;
    if (owners.isEmpty) this.watch(undefined);
    if (!newest) return;
    try {
      this.context.leases?.onHolders(this.key, newest.reading.document.holders);
      if (owners.isEmpty) return;
      const queue = this.queueIn(newest);
      for (const notification of owners.compare(newest, queue, () => this.nowIn(newest)))
        this.context.notify(notification);
      this.watch(owners.interestIn(queue));
    } catch {
      // The document has a format that this release cannot read. The next request reads it again and throws.
      this.newest = undefined;
    }
  }

  private watch(interest: PollPriority | undefined): void {
    if (interest === this.interest) return;
    this.interest = interest;
    this.context.watch(this.name, interest);
  }

  /** How long this round has been losing its writes to other clients; 0 for the first tries. */
  private triedMs({ tries, firstReplyAt }: Round): number {
    const { register, clock } = this.context;
    return tries < MIN_TRIES || !register.isRemote ? 0 : clock.now() - firstReplyAt;
  }
}

export interface LaneContext extends OwnersContext {
  readonly register: TimedRegister;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly delays: Delays;
  readonly client: ActingClient;
  notify(notification: Notification): void;
  watch(name: string, interest: PollPriority | undefined): void;
  onIdle(name: string): void;
}

/** A task is executed: its outcome is written, or came from a reading that was made for it. */
export interface Executed {
  /** Our time before the last request for it was sent. */
  readonly sentAt: number;
  /** The store's time, in ms. */
  readonly executedAt: number;
  /** Until when, on our clock, what was written stays for certain, if no lease ends before. */
  readonly validUntil: number;
  /** Owners in the queue after the task, with those whose notes the task did not know of. */
  readonly waiting: number;
}

interface TaskOptions {
  /** The request, of a task that acquires. */
  readonly request?: AcquireRequest;
  /** The task may wait for the rest of this turn of the event loop, to be written together with the next one. */
  readonly mayWait?: boolean;
  /** The task takes an owner out of the document. It goes on for as long as other clients are first. */
  readonly isRelease?: boolean;
}

interface Task {
  /** @returns a function that makes the reply, to be called when the changed state is written */
  readonly apply: (state: KeyState) => (executed: Executed) => unknown;
  readonly request: AcquireRequest | undefined;
  readonly isRelease: boolean;
  readonly resolve: (reply: never) => void;
  readonly reject: (error: unknown) => void;
}

type Settle = (executed: Executed) => void;

/** Tasks that are executed together, and what was tried for them. */
interface Round {
  left: readonly Task[];
  tries: number;
  lostSwaps: number;
  /** When the first reply came. The limit for the tries counts from here, because the register may have had to connect before it. */
  firstReplyAt: number;
  /** A document that was read or written for them. */
  fresh?: TimedReading;
}

interface Applied {
  readonly state: KeyState;
  readonly settles: readonly Settle[];
}

function willLeaveNote({ request }: Task): boolean {
  return request !== undefined && leavesNote(request);
}

function requestsOf(tasks: readonly Task[]): Requests {
  return tasks.flatMap(({ request }) => request ?? []) as readonly AcquireRequest[] as Requests;
}

/** A reply to a later request is newer also if the order is smaller, in case the store has lost its last writes. */
function isNewer(one: TimedReading, other: TimedReading): boolean {
  if (one.sentAt > other.receivedAt) return true;
  const [a, b] = [one.reading, other.reading];
  return a.order > b.order || (a.order === b.order && a.notesRead >= b.notesRead);
}

export function nextAction(situation: Situation): Action {
  const { acquiring, document, isFresh, mustLeaveNotes } = situation;
  const mayBeAbsent = document === 'absent' || (acquiring === 'all' && !isFresh);
  if (acquiring !== 'none' && (mayBeAbsent || mustLeaveNotes)) return 'take';
  if (document === 'not known') return 'read';
  if (situation.isChanged()) return 'swap';
  return isFresh ? 'answer' : 'read';
}

/** The knowledge of a lane before it asks the store, or answers. */
export interface Situation {
  /** How many of the tasks acquire: these may take a document that the lane has never seen. */
  readonly acquiring: 'none' | 'some' | 'all';
  /** The lane knows nothing of the document yet, or that there was none, or its newest state. */
  readonly document: 'not known' | 'absent' | 'present';
  /** The document was read or written for these tasks. Another client may have changed an older one. */
  readonly isFresh: boolean;
  /** Swaps failed because other clients wrote first, and the waiters have left no notes yet. A take that fails leaves them. */
  readonly mustLeaveNotes: boolean;
  /** Whether the tasks change the document. Called only if the action depends on it, because it applies the tasks. */
  isChanged(): boolean;
}

/**
 * - `take` writes the first grant of a free key without reading it. If the key is not free, the document comes back, and the
 *   owners that wait have left notes.
 * - `read` asks for the document.
 * - `swap` writes the changed document, if it is still the known one.
 * - `answer` needs no request: nothing changes, and the document is fresh.
 */
export type Action = 'take' | 'read' | 'swap' | 'answer';
