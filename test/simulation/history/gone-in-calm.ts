import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import { RECHECK_MS, SILENT_WAITER_MS } from '../../../libs/distributed-lock/src/port/timing.js';
import { UNCONFIRMED_MS } from '../../../libs/distributed-lock/src/document/document.js';
import type { Actor, Stage } from './stage.js';

const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const MIN_RECHECK_MS = 900;
const PATIENCE_MS = 15_000;
/** docs/guarantees.md, etcd and ZooKeeper: one in the queue who is gone has its grant taken back after one to two seconds. */
const TAKEN_BACK_MS = UNCONFIRMED_MS + RECHECK_MS;

/** So often another process asks while a grant is on its way to its owner. */
const LOOKS = 4;

type How = 'gave up' | 'is stopped' | 'crashed' | 'crashed with others';
/** Callers of the process that crashes with others, each with a place in the queue. */
const OTHERS = 3;

/**
 * docs/guarantees.md, liveness: one who has given up, or who is silent for three rechecks, holds up nobody who waits behind it.
 * The first process holds, the second waits and goes, the third waits behind it and is granted by the release. Several waiters of one
 * process that is gone cost no more than one. And a reader
 * that died keeps writers out for its own lease only, however long others read.
 *
 * @param leaseMs of a lock under the watchdog
 */
export async function goneInCalm(stage: Stage, leaseMs: number): Promise<void> {
  await behindOneWho(stage, 'gave up');
  await behindOneWho(stage, 'is stopped');
  // docs/guarantees.md, etcd and ZooKeeper: there a holder that is gone costs its session.
  if (!stage.parts.hasSessions) await besideADeadReader(stage, leaseMs);
  // A lease that is no longer than an unconfirmed one needs no confirmation, so that the grant to one who is gone shows nothing.
  const isConfirmed = leaseMs > UNCONFIRMED_MS;
  await behindOneWho(stage, isConfirmed && stage.parts.dice.happens(0.5) ? 'crashed with others' : 'crashed');
}

async function behindOneWho(stage: Stage, how: How): Promise<void> {
  const { kernel, handOffMs, hasSessions, servesInTurn } = stage.parts;
  const queuedMs = 2 * (handOffMs + SLACK_MS);
  const key = `behind one who ${how}`;
  const isPassedOver = how === 'gave up' || (how === 'crashed with others' ? servesInTurn : !hasSessions);
  let isBack = false;
  const comesBack = how === 'is stopped' && hasSessions;
  const scene: Scene = {
    key,
    options: {},
    goneMs: isPassedOver ? 0 : TAKEN_BACK_MS,
    ...(comesBack && { andThen: (holder) => grantedAgain(stage, key, holder, () => isBack) }),
  };
  await watch(stage, scene, async (goer) => {
    const onBack = () => void (isBack = true);
    const fair = { fair: true, waitMs: Infinity };
    if (how === 'crashed with others') for (let i = 0; i < OTHERS; i++) ask(goer, key, fair, onBack, onBack);
    else ask(goer, key, { waitMs: how === 'gave up' ? 2 * queuedMs : Infinity }, onBack, onBack);
    await kernel.run(kernel.now + queuedMs);
    return async () => {
      // On one Redis the end of its connection tells that it is dead.
      // The first grant to it that nobody confirms tells the same of all its waiters.
      const isNoticed =
        how === 'gave up' ||
        how === 'crashed with others' ||
        hasSessions ||
        (how === 'crashed' && servesInTurn);
      const silentMs = isNoticed ? 0 : SILENT_WAITER_MS;
      if (how.startsWith('crashed')) stage.crash(goer);
      if (how === 'is stopped') goer.process.stop(SILENT_WAITER_MS + 2 * queuedMs);
      await kernel.run(kernel.now + silentMs + queuedMs);
    };
  });
}

/**
 * One whose grant was taken back waits again, and counts as any other who waits: its next grant is left to it, also by the process
 * that has seen how the first one was not confirmed.
 */
async function grantedAgain(
  { parts: { kernel, history, handOffMs } }: Stage,
  key: string,
  witness: Actor,
  isGranted: () => boolean,
): Promise<() => Promise<void>> {
  const mostMs = handOffMs + SLACK_MS;
  await kernel.run(kernel.now + SILENT_WAITER_MS + RECHECK_MS + 4 * mostMs);
  return async () => {
    for (let i = 0; i < LOOKS; i++)
      kernel.after((i * handOffMs) / 2 / LOOKS, () => ask(witness, key, { waitMs: 0 }, () => undefined));
    await kernel.run(kernel.now + mostMs, isGranted);
    if (!isGranted())
      history.violate('hand-off', `one whose grant was taken back is not granted ${key} within ${mostMs} ms`);
  };
}

async function besideADeadReader(stage: Stage, leaseMs: number): Promise<void> {
  const { kernel } = stage.parts;
  const key = 'beside a dead reader';
  const [, , , spare] = living(stage);
  // It must die, and the next scene needs three that live.
  if (!spare) return;
  await watch(stage, { key, options: { mode: 'shared' }, goneMs: 0 }, async (goer) => {
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

interface Scene {
  readonly key: string;
  readonly options: CallOptions;
  /** What the one who is gone costs. */
  readonly goneMs: number;
  /** While the third one holds. @returns what is done when that one has released */
  readonly andThen?: (holder: Actor) => Promise<() => Promise<void>>;
}

/**
 * @param goes brings the second process to where it is to be @returns what is done once the third waits, before the release
 */
async function watch(
  stage: Stage,
  { key, options, goneMs, andThen }: Scene,
  goes: (goer: Actor) => Promise<() => Promise<void>>,
): Promise<void> {
  const { kernel, history, handOffMs } = stage.parts;
  const mostMs = handOffMs + SLACK_MS;
  const [holder, goer, waiter] = living(stage);
  if (mostMs > MIN_RECHECK_MS || !holder || !goer || !waiter) return;
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
  let leave = (): void => undefined;
  const onRefused = () => (isRefused = true);
  ask(
    waiter,
    key,
    { ...(options.mode && { mode: 'exclusive' }), waitMs: Infinity },
    () => {
      isOver = true;
      return andThen && new Promise<void>((resolve) => (leave = resolve));
    },
    onRefused,
  );
  await kernel.run(kernel.now + 2 * mostMs);
  await then();
  holder.process.receive(release);
  const withinMs = mostMs + goneMs;
  await kernel.run(kernel.now + withinMs, () => isOver);
  if (!isOver && !isRefused)
    history.violate('hand-off', `a waiter ${key} is not granted within ${withinMs} ms of the release`);
  const last = isOver ? await andThen?.(holder) : undefined;
  waiter.process.receive(() => leave());
  await last?.();
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
