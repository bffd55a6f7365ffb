import { SILENT_WAITER_MS } from '../../../libs/distributed-lock/src/port/recheck-interval.js';
import type { Actor, Stage } from './stage.js';

const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;

type How = 'gave up' | 'is stopped' | 'crashed';

/**
 * docs/guarantees.md, liveness: one who has given up, or who is silent for three rechecks, holds up nobody who waits behind it.
 * The first process holds, the second waits and goes, the third waits behind it and is granted by the release.
 */
export async function goneInCalm(stage: Stage): Promise<void> {
  await watch(stage, 'gave up');
  await watch(stage, 'is stopped');
  await watch(stage, 'crashed');
}

async function watch(stage: Stage, how: How): Promise<void> {
  const { kernel, history, handOffMs } = stage.parts;
  const mostMs = handOffMs + SLACK_MS;
  const [holder, goer, waiter] = stage.actors.filter(({ process }) => process.state === 'running');
  if (mostMs > RECHECK_MS || !holder || !goer || !waiter) return;
  const key = `behind one who ${how}`;
  let release: (() => void) | undefined;
  let isGranted = false;

  ask(holder, key, Infinity, () => new Promise<void>((resolve) => (release = resolve)));
  await kernel.run(kernel.now + PATIENCE_MS, () => release !== undefined);
  // A service that the plan has closed refuses.
  if (!release) return;
  const queuedMs = 2 * mostMs;
  ask(goer, key, how === 'gave up' ? 2 * queuedMs : Infinity, () => undefined);
  await kernel.run(kernel.now + queuedMs);
  let isRefused = false;
  ask(
    waiter,
    key,
    Infinity,
    () => void (isGranted = true),
    () => (isRefused = true),
  );
  await kernel.run(kernel.now + queuedMs);
  const silentMs = how === 'gave up' ? 0 : SILENT_WAITER_MS;
  if (how === 'crashed') stage.crash(goer);
  if (how === 'is stopped') goer.process.stop(silentMs + 2 * queuedMs);
  await kernel.run(kernel.now + silentMs + queuedMs);
  holder.process.receive(release);
  await kernel.run(kernel.now + mostMs, () => isGranted);
  if (!isGranted && !isRefused)
    history.violate('hand-off', `a waiter ${key} is not granted within ${mostMs} ms of the release`);
  await kernel.run(kernel.now + PATIENCE_MS);
}

function ask(
  { process, services: [service] }: Actor,
  key: string,
  waitMs: number,
  work: () => unknown,
  onRefused: () => void = () => undefined,
): void {
  process.receive(() => void service?.withLock(key, { waitMs }, work).catch(onRefused));
}
