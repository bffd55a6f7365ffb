import { type Chance, type Clock, type Delays, nextTurn } from '../common/clock.js';
import { ignoreFailure } from '../common/promises.js';
import { asUnknownError } from '../connection/connection-errors.js';
import type { ServerClock } from '../connection/server-clock.js';
import type { AcquireRequest, Notification } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { isAttach, leavesNote, type StoredWaiter, type TimedReading } from './document.js';
import { type ActingClient, KeyState } from './key-state.js';
import { LaneOwners } from './lane-owners.js';
import type { SessionLeases } from './leases.js';
import { type PollPriority, sessionEndedError } from './timed-register.js';
import type { TimedRegister, TimedReply } from './timed-register.js';

/** How many requests the lane sends for one batch of tasks before it pauses for a random time before each further one. */
const TRIES_WITHOUT_PAUSE = 4;
/** After this many requests for one batch, the lane sends another one only within `commandTimeoutMs` of the first reply. */
const MIN_TRIES = 2;
/**
 * After this many requests for one batch, of which the last was a failed swap, the lane stores notes for the acquires that wait: no
 * other client can make that fail.
 */
const TRIES_WITHOUT_NOTES = 2;
const MAX_PAUSE_MS = 8;

/**
 * Does the work of one client on one key, with at most one request to the store in flight:
 *
 * 1. A caller adds a task by `run`: an acquire, a renewal or a release. Tasks that arrive while a request is in flight wait for
 *    its reply.
 * 2. `executeAll` takes all waiting tasks as one batch. `execute` applies them, in order, to a copy of the newest document that
 *    the lane knows.
 * 3. The register writes the changed document by compare-and-swap. If another client wrote first, the swap fails and its reply is
 *    that client's document. The lane then applies the same tasks to that document and tries again.
 * 4. As soon as the document is written, the lane resolves each task with its reply. If the tasks change nothing, the lane
 *    resolves them from a document that it has read for this batch.
 * 5. Whenever a newer document arrives, `compare` looks for what other clients did to the owners of this client (granted them the
 *    lock, took it away, queued behind them), and notifies these owners.
 */
export class Lane {
  readonly owners: LaneOwners;
  private tasks: Task[] = [];
  private isRunning = false;
  private isScheduled = false;
  /** The newest document that this client has seen. */
  private newest: TimedReading | undefined;
  private pollPriority: PollPriority | undefined;
  /** The current batch has stored notes, so other clients may grant their owners the lock even if this lane's next write fails. */
  private hasNotes = false;
  /** This client's session ended during the current batch, which must fail: the document that it worked on no longer counts. */
  private hasSessionEnded = false;

  constructor(
    private readonly name: string,
    /** The key as callers know it: `name` without the `keyPrefix`. */
    private readonly key: string,
    private readonly context: LaneContext,
  ) {
    this.owners = new LaneOwners(key, context);
  }

  /**
   * Adds a task, and resolves with its reply.
   *
   * @param apply changes the state, and returns a function that builds the reply. If another client writes first, the lane calls
   * `apply` again with the newer state. The returned function runs when the changed state is written, before `compare`.
   * @throws LockStoreError when the back end did not execute the task, or did not say whether it did; and whatever `apply` throws
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

  /** Called with a document that this lane did not request: it came in a message of another client, or the register has polled it. */
  onReading(timed: TimedReading): void {
    this.keepNewest(timed);
    this.compare();
  }

  /** Reads the document again, which shows this client's holders whether they still hold the lock. */
  async readAgain(): Promise<void> {
    await this.run(() => () => undefined).catch(() => undefined);
  }

  /** Called when this client's session has ended, and with it everything the client held. */
  onSessionEnd(): void {
    this.newest = undefined;
    this.hasSessionEnded = true;
    for (const notification of this.owners.onSessionEnd()) this.context.notify(notification);
    this.closeIfIdle();
  }

  /** Forgets an owner whose release was given up, even if the document still names it. */
  forget(owner: string): void {
    this.owners.onGone(owner);
    this.closeIfIdle();
  }

  /** Removes this lane from the store if it has neither tasks nor owners. */
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
    ignoreFailure(this.executeAll());
  }

  private async executeAll(): Promise<void> {
    while (this.tasks.length > 0) {
      const tasks = this.tasks;
      this.tasks = [];
      this.hasNotes = false;
      try {
        await this.execute(tasks);
      } catch (error) {
        // Reject the tasks that arrived meanwhile, too. They would only wait for the same failing back end again.
        this.fail([...tasks, ...this.tasks.splice(0)], error);
      }
      // A message with the grant of a new owner may have arrived before the reply to its acquire. Compare again, now that the lane
      // knows the owner.
      this.compare();
    }
    this.isRunning = false;
    this.closeIfIdle();
  }

  /** Rejects the tasks. If notes were stored, the error becomes `unknown`: another client may still grant their owners the lock. */
  private fail(tasks: readonly Task[], error: unknown): void {
    const isUnsure = this.hasNotes && error instanceof LockStoreError;
    for (const task of tasks) task.reject(isUnsure ? asUnknownError(error) : error);
  }

  /** Rejects the tasks because other clients have won every write for too long, but tries the releases again with the next batch. */
  private giveUp({ left, tries }: Batch, ms: number): void {
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
    const batch: Batch = { left: tasks, tries: 0, lostSwaps: 0, firstReplyAt: 0 };
    for (; batch.left.length > 0; batch.tries++) {
      if (batch.tries === 1) batch.firstReplyAt = clock.now();
      // 1. After several tries, pause for a random time, so that clients that lose their writes to each other fall out of step.
      if (batch.tries >= TRIES_WITHOUT_PAUSE && register.isRemote)
        await delays.wait(chance.random() * MAX_PAUSE_MS);
      this.checkSession();
      // 2. Start from the document of the last reply, or else from the newest one that this lane remembers. A take needs no
      //    document, so `apply` runs only if it is called.
      const { left } = batch;
      const requests = left.flatMap(({ request }) => request ?? []);
      const acquiring = requests.filter((request) => !isAttach(request));
      const base = (batch.fresh ?? this.newest) as TimedReading;
      let applied: Applied | undefined;
      const apply = (): Applied => (applied ??= this.applyTo(base, left));
      // 3. Decide which request to send, if any.
      const action = nextAction({
        acquiring: acquiring.length === 0 ? 'none' : acquiring.length < left.length ? 'some' : 'all',
        document: !base ? 'not known' : base.reading.version === undefined ? 'absent' : 'present',
        isFresh: batch.fresh !== undefined,
        mustLeaveNotes: !this.hasNotes && mustLeaveNotes(batch),
        isChanged: () => apply().state.isChanged,
      });
      // 4. Give up if it is too late for another request.
      const triedMs = action === 'answer' ? 0 : this.triedMs(batch);
      if (triedMs > register.commandTimeoutMs) return this.giveUp(batch, triedMs);
      // 5. Send the request. Its reply resolves tasks, or brings a newer document for the tasks that are left.
      switch (action) {
        case 'take':
          this.onTakeReply(batch, await register.take(this.name, acquiring, batch.lostSwaps));
          break;
        case 'read':
          batch.fresh = this.onReply(await register.read(this.name));
          break;
        case 'swap':
          this.onSwapReply(
            batch,
            apply(),
            await register.swap({ name: this.name, base, state: apply().state, requests }),
          );
          break;
        case 'answer':
          this.settleAll(batch, apply());
      }
    }
  }

  /** If the key was free, the first acquire of the batch holds the lock now. Otherwise notes were stored for those that wait. */
  private onTakeReply(batch: Batch, { isDone, timed }: TimedReply): void {
    batch.fresh = this.onReply(timed);
    if (!isDone) return this.onNotesStored(batch.left.filter((task) => willLeaveNote(task, batch)));
    const first = batch.left.find(mayTake) as Task;
    this.settleOf(first, this.stateIn(batch.fresh))(this.executedBy(batch.fresh));
    batch.left = batch.left.filter((task) => task !== first);
  }

  /** Records the owners as waiters before their tasks get a reply, because another client may already have granted them the lock. */
  private onNotesStored(tasks: readonly Task[]): void {
    if (tasks.length === 0) return;
    this.hasNotes = true;
    for (const { request } of tasks) this.owners.onNoteStored(request as AcquireRequest);
    this.compare();
  }

  private onSwapReply(batch: Batch, applied: Applied, { isDone, timed }: TimedReply): void {
    batch.fresh = this.onReply(timed);
    if (isDone) return this.settleAll(batch, applied);
    batch.lostSwaps += 1;
    this.compare();
  }

  private settleAll(batch: Batch, { settles }: Applied): void {
    const executed = this.executedBy(batch.fresh as TimedReading);
    for (const settle of settles) settle(executed);
    batch.left = [];
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

  /** All owners that wait for the key, also those whose notes are not merged yet. */
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

  private checkSession(): void {
    if (this.hasSessionEnded) throw sessionEndedError(this.key, 'unknown');
  }

  private keepNewest(timed: TimedReading): TimedReading {
    if (!this.newest || isNewer(timed, this.newest)) this.newest = timed;
    return timed;
  }

  /** The earliest that the store's clock may show now. */
  private nowIn({ reading, receivedAt }: TimedReading): number {
    return reading.now + this.context.clock.now() - receivedAt;
  }

  /** Looks in the newest document for what other clients did to the owners of this client, and notifies these owners. */
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
      this.watch(owners.pollPriorityIn(queue));
    } catch {
      // Another version of the library wrote a format that we cannot parse. The next request reads it again and throws to its caller.
      this.newest = undefined;
    }
  }

  private watch(pollPriority: PollPriority | undefined): void {
    if (pollPriority === this.pollPriority) return;
    this.pollPriority = pollPriority;
    this.context.watch(this.name, pollPriority);
  }

  /** How long this batch has lost every write to other clients, in ms. 0 for the first tries, and for a store in this process. */
  private triedMs({ tries, firstReplyAt }: Batch): number {
    const { register, clock } = this.context;
    return tries < MIN_TRIES || !register.isRemote ? 0 : clock.now() - firstReplyAt;
  }
}

export interface LaneContext {
  readonly register: TimedRegister;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly delays: Delays;
  readonly client: ActingClient;
  readonly serverClock: ServerClock;
  /** Ends the leases of this client's owners. Absent where the back end itself ends them. */
  readonly leases: SessionLeases | undefined;
  notify(notification: Notification): void;
  watch(name: string, pollPriority: PollPriority | undefined): void;
  onIdle(name: string): void;
}

/** How and when the store executed a task. */
interface Executed {
  /** When the last request for the task was sent, by our clock, in ms. */
  readonly sentAt: number;
  /** When the store executed that request, by the store's clock, in ms. */
  readonly executedAt: number;
  /** Until when, by our clock, the session of this client, and with it the task's effect, certainly lasts. `Infinity` without sessions. */
  readonly validUntil: number;
  /** How many owners wait after the task. */
  readonly waiting: number;
}

interface TaskOptions {
  /** Present if the task acquires or attaches. */
  readonly request?: AcquireRequest;
  /** The lane may send the task at the end of this turn of the event loop, together with all others of the same turn. */
  readonly mayWait?: boolean;
  /** The lane goes on trying this task, no matter how many times other clients write first. */
  readonly isRelease?: boolean;
}

interface Task {
  /** As for `Lane.run`. */
  readonly apply: (state: KeyState) => (executed: Executed) => unknown;
  readonly request: AcquireRequest | undefined;
  readonly isRelease: boolean;
  readonly resolve: (reply: never) => void;
  readonly reject: (error: unknown) => void;
}

type Settle = (executed: Executed) => void;

/** A batch of tasks, and what the lane has tried for it so far. */
interface Batch {
  left: readonly Task[];
  tries: number;
  lostSwaps: number;
  /** When the first reply came, by our clock. Time before it does not count: the request may have waited long for a connection. */
  firstReplyAt: number;
  /** The document in the last reply to this batch. */
  fresh?: TimedReading;
}

interface Applied {
  readonly state: KeyState;
  readonly settles: readonly Settle[];
}

/** Whether the task acquires, so that a `take` can execute it. */
function mayTake({ request }: Task): boolean {
  return request !== undefined && !isAttach(request);
}

function willLeaveNote({ request }: Task, { lostSwaps }: Batch): boolean {
  return request !== undefined && leavesNote(request, lostSwaps);
}

function mustLeaveNotes(batch: Batch): boolean {
  const isLosing = batch.lostSwaps > 0 && batch.tries >= TRIES_WITHOUT_NOTES;
  return isLosing && batch.left.some((task) => willLeaveNote(task, batch));
}

/** Whether `one` has the larger `order`, or was requested after `other` had arrived: a store may lose its last writes in a crash. */
function isNewer(one: TimedReading, other: TimedReading): boolean {
  if (one.sentAt > other.receivedAt) return true;
  const [a, b] = [one.reading, other.reading];
  return a.order > b.order || (a.order === b.order && a.notesRead >= b.notesRead);
}

/**
 * Decides what the lane does next.
 *
 * - `take` writes the first grant of a free key without reading it. If the key is not free, the reply is its document, and each
 *   acquire that is willing to wait has stored a note.
 * - `read` asks for the document.
 * - `swap` writes the changed document, unless another client has written meanwhile.
 * - `answer` sends nothing: the tasks change nothing, and the document is fresh.
 */
export function nextAction(situation: Situation): Action {
  const { acquiring, document, isFresh, mustLeaveNotes } = situation;
  const mayBeAbsent = document === 'absent' || (acquiring === 'all' && !isFresh);
  if (acquiring !== 'none' && (mayBeAbsent || mustLeaveNotes)) return 'take';
  if (document === 'not known') return 'read';
  if (situation.isChanged()) return 'swap';
  return isFresh ? 'answer' : 'read';
}

interface Situation {
  /** How many of the tasks are acquires. Only if all are, the lane may send a `take` before it has read the document. */
  readonly acquiring: 'none' | 'some' | 'all';
  readonly document: 'not known' | 'absent' | 'present';
  /** Whether the document came in a reply to this batch. */
  readonly isFresh: boolean;
  /** Whether this batch has lost so many swaps that its waiters must now store notes, which a take does on a key in use. */
  readonly mustLeaveNotes: boolean;
  /** Whether the tasks change the document. Called only if the action depends on it, because it applies the tasks. */
  isChanged(): boolean;
}

type Action = 'take' | 'read' | 'swap' | 'answer';
