import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import { SILENT_WAITER_MS } from '../../../libs/distributed-lock/src/port/recheck-interval.js';
import type { Actor, Stage } from './stage.js';

const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;

type How = 'gave up' | 'is stopped' | 'crashed';

/**
 * docs/guarantees.md, liveness: one who has given up, or who is silent for three rechecks, holds up nobody who waits behind it.
 * The first process holds, the second waits and goes, the third waits behind it and is granted by the release. And a reader
 * that died keeps writers out for its own lease only, however long others read.
 *
 * @param leaseMs of a lock under the watchdog
 */
export async function goneInCalm(stage: Stage, leaseMs: number): Promise<void> {
  await behindOneWho(stage, 'gave up');
  // docs/guarantees.md, etcd and ZooKeeper: there one who is gone costs seconds, or its session.
  if (stage.parts.hasSessions) return;
  await behindOneWho(stage, 'is stopped');
  await besideADeadReader(stage, leaseMs);
  await behindOneWho(stage, 'crashed');
}

async function behindOneWho(stage: Stage, how: How): Promise<void> {
  const { kernel, handOffMs } = stage.parts;
  const queuedMs = 2 * (handOffMs + SLACK_MS);
  const key = `behind one who ${how}`;
  await watch(stage, key, {}, async (goer) => {
    ask(goer, key, { waitMs: how === 'gave up' ? 2 * queuedMs : Infinity }, () => undefined);
    await kernel.run(kernel.now + queuedMs);
    return async () => {
      const silentMs = how === 'gave up' ? 0 : SILENT_WAITER_MS;
      if (how === 'crashed') stage.crash(goer);
      if (how === 'is stopped') goer.process.stop(silentMs + 2 * queuedMs);
      await kernel.run(kernel.now + silentMs + queuedMs);
    };
  });
}

async function besideADeadReader(stage: Stage, leaseMs: number): Promise<void> {
  const { kernel } = stage.parts;
  const key = 'beside a dead reader';
  const [, , , spare] = living(stage);
  // It must die, and the next scene needs three that live.
  if (!spare) return;
  await watch(stage, key, { mode: 'shared' }, async (goer) => {
    let isReading = false;
    ask(goer, key, { mode: 'shared', waitMs: Infinity }, () => {
      isReading = true;
      return new Promise<never>(() => undefined);
    });
    await kernel.run(kernel.now + PATIENCE_MS, () => isReading);
    stage.crash(goer);
    return () => kernel.run(kernel.now + leaseMs + SLACK_MS);
  });
}

/**
 * @param goes brings the second process to where it is to be @returns what is done once the third waits, before the release
 */
async function watch(
  stage: Stage,
  key: string,
  options: CallOptions,
  goes: (goer: Actor) => Promise<() => Promise<void>>,
): Promise<void> {
  const { kernel, history, handOffMs } = stage.parts;
  const mostMs = handOffMs + SLACK_MS;
  const [holder, goer, waiter] = living(stage);
  if (mostMs > RECHECK_MS || !holder || !goer || !waiter) return;
  let release: (() => void) | undefined;
  ask(
    holder,
    key,
    { ...options, waitMs: Infinity },
    () => new Promise<void>((resolve) => (release = resolve)),
  );
  await kernel.run(kernel.now + PATIENCE_MS, () => release !== undefined);
  // A service that the plan has closed refuses.
  if (!release) return;
  const then = await goes(goer);
  let isOver = false;
  let isRefused = false;
  const onRefused = () => (isRefused = true);
  ask(
    waiter,
    key,
    { ...(options.mode && { mode: 'exclusive' }), waitMs: Infinity },
    () => void (isOver = true),
    onRefused,
  );
  await kernel.run(kernel.now + 2 * mostMs);
  await then();
  holder.process.receive(release);
  await kernel.run(kernel.now + mostMs, () => isOver);
  if (!isOver && !isRefused)
    history.violate('hand-off', `a waiter ${key} is not granted within ${mostMs} ms of the release`);
  await kernel.run(kernel.now + PATIENCE_MS);
}

function living({ actors }: Stage): readonly Actor[] {
  return actors.filter(({ process }) => process.state === 'running');
}

function ask(
  { process, services: [service] }: Actor,
  key: string,
  options: CallOptions,
  work: () => unknown,
  onRefused: () => void = () => undefined,
): void {
  process.receive(() => void service?.withLock(key, options, work).catch(onRefused));
}
