import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { LockLostError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Plan } from '../plan/plan.js';
import type { Actor, Stage } from './stage.js';
import { forcedAfterMs, maxNoticeMs } from './takeovers.js';

const GRACE_MS = 800;
const TAKEOVER: CallOptions = { onBusy: 'takeover', graceMs: GRACE_MS, waitMs: 60_000 };
/** How far the clocks of the processes may run apart within the grace, and pauses between requests. */
const SLACK_MS = 150;
/** A recheck must not be taken for a notification. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;
/** A process is stopped for longer than the grace and what follows it. */
const STOPPED_MS = 8000;

/** What the holder does when it is told that its lock is taken over. */
type Manner = 'ends' | 'works on' | 'is stopped';

/**
 * docs/guarantees.md, a takeover: a holder is told, and has its grace. One that ends within it keeps its result, and the lock
 * goes to the call that takes it over, before one that has waited longer. After the grace it goes to that call in any case,
 * under a larger token, and the holder is told of the loss.
 */
export async function takeoverInCalm(stage: Stage, plan: Plan): Promise<void> {
  await takeoverFromAfar(stage, plan);
  const manners: readonly Manner[] = ['ends', 'works on', 'is stopped'];
  for (const manner of manners) if (!(await takeOver(stage, plan, manner))) return;
}

/**
 * docs/guarantees.md, a takeover: a holder that is far from the server, or whose store polls, is told late. The lock waits for it:
 * when another has it, the holder does not believe in it any more. Nothing is said of servers that bring the notice later than that.
 */
async function takeoverFromAfar({ actors, parts }: Stage, plan: Plan): Promise<void> {
  const { kernel, history, network, messageLagMs } = parts;
  const { commandTimeoutMs } = plan.storeOptions;
  const [holder, taker] = actors.filter(({ process }) => process.state === 'running');
  // What the server brings so late may come after the longest time of a notice: it is under way for half a command, too.
  if (!holder || !taker || messageLagMs > maxNoticeMs(commandTimeoutMs) - commandTimeoutMs / 2) return;
  const { least, spread } = plan.latency;
  const { farMs = 0 } = plan.processes[actors.indexOf(holder)] ?? {};
  // Its round trip takes up to half of a command, as those of far processes do.
  const farther = Math.floor(commandTimeoutMs / 4 - least - spread);
  network.moveAway(holder.process, Math.max(farMs, farther));
  const key = 'taken from afar';
  const held = ask(holder, key, { waitMs: 60_000 });
  await kernel.run(kernel.now + PATIENCE_MS, () => held.isOver || held.lock !== undefined);
  const taken = ask(taker, key, TAKEOVER);
  await kernel.run(kernel.now + PATIENCE_MS, () => taken.isOver || taken.lock !== undefined);
  holder.process.receive(() => {
    if (taken.lock && held.lock?.validForMs)
      history.violate('exclusion', 'a takeover from afar: the holder believes in a lock that another has');
  });
  for (const it of [held, taken]) it.end();
  await kernel.run(kernel.now + PATIENCE_MS);
  network.moveAway(holder.process, farMs);
}

/** @returns false where it cannot be tried */
async function takeOver({ actors, parts }: Stage, plan: Plan, manner: Manner): Promise<boolean> {
  const { kernel, history, handOffMs } = parts;
  const [holder, taker, waiter] = actors.filter(({ process }) => process.state === 'running');
  const mostMs = 2 * handOffMs + SLACK_MS;
  if (!holder || !taker || mostMs > RECHECK_MS) return false;
  const key = `taken from one that ${manner}`;
  const held = ask(holder, key, { waitMs: 60_000 });
  await kernel.run(kernel.now + PATIENCE_MS, () => held.isOver || held.lock !== undefined);
  if (!held.lock) return false;
  held.lock.signal.addEventListener('abort', () => {
    held.toldAt = kernel.now;
    if (manner === 'ends') held.end();
  });
  const behind = waiter && ask(waiter, key, { waitMs: 60_000 });
  await kernel.run(kernel.now + mostMs);
  const askedAt = kernel.now;
  const taken = ask(taker, key, TAKEOVER);
  if (manner === 'is stopped') holder.process.stop(STOPPED_MS);
  await kernel.run(askedAt + GRACE_MS - SLACK_MS, () => taken.isOver || taken.lock !== undefined);
  // A service that the plan has closed refuses.
  if (taken.isOver) {
    for (const it of [held, behind]) it?.end();
    return false;
  }
  const afterMs = manner === 'is stopped' ? mostForcedMs(plan) : GRACE_MS;
  // Nobody renews the lease of one that is stopped, so it may end before the grace.
  const mayExpire = manner === 'is stopped' && plan.watchdogTimeoutMs / 2 < GRACE_MS;
  const isEarly = taken.lock !== undefined && manner !== 'ends' && !mayExpire;
  await kernel.run(askedAt + afterMs + mostMs, () => taken.lock !== undefined);
  const say = (rule: 'hand-off' | 'exclusion' | 'loss' | 'tokens', what: string): void =>
    history.violate(rule, `a takeover from a holder that ${manner}: ${what}`);
  if (isEarly) say('exclusion', 'it has the lock before the grace is over');
  if (!taken.lock) say('hand-off', `it has no lock ${mostMs} ms after the grace`);
  else if (taken.lock.fencingToken <= held.lock.fencingToken) say('tokens', 'its token is not larger');
  if (behind?.lock && !taken.hasEnded) say('hand-off', 'one that has waited longer was granted the lock');
  if (manner !== 'is stopped' && held.toldAt === undefined) say('loss', 'the holder was not told');
  await kernel.run(kernel.now + PATIENCE_MS, () => held.toldAt !== undefined);
  // One that stood still for so long may believe until its store has told it of the force, which comes after the notice.
  if (manner === 'is stopped') await kernel.run(kernel.now + mostMs + parts.messageLagMs);
  if (manner === 'ends' && held.error) say('loss', 'the holder has lost its result');
  holder.process.receive(() => {
    if (manner !== 'ends' && held.lock?.validForMs) say('exclusion', 'the holder believes in its lock');
  });
  for (const it of [held, taken, behind]) it?.end();
  await kernel.run(kernel.now + PATIENCE_MS + GRACE_MS, () => behind?.isOver !== false && held.isOver);
  behind?.end();
  if (manner !== 'ends' && !(held.error instanceof LockLostError))
    say('loss', 'a call whose lock was taken over after its grace has resolved');
  await kernel.run(kernel.now + PATIENCE_MS);
  return true;
}

/** A quorum gives a call twice the time that it gives a node. */
function mostForcedMs({ storeOptions: { commandTimeoutMs } }: Plan): number {
  return forcedAfterMs(GRACE_MS, 2 * commandTimeoutMs);
}

function ask({ process, services: [service] }: Actor, key: string, options: CallOptions) {
  const state = {
    lock: undefined as Lock | undefined,
    toldAt: undefined as number | undefined,
    error: undefined as unknown,
    hasEnded: false,
    isOver: false,
    end: (): void => void (state.hasEnded = true),
  };
  const work = (lock: Lock): Promise<void> | undefined => {
    state.lock = lock;
    if (state.hasEnded) return undefined;
    return new Promise((resolve) => {
      state.end = () => {
        state.hasEnded = true;
        process.receive(resolve);
      };
    });
  };
  const onOver = (error?: unknown): void => {
    state.error = error;
    state.isOver = true;
  };
  process.receive(() => void service?.withLock(key, options, work).then(() => onOver(), onOver));
  return state;
}
