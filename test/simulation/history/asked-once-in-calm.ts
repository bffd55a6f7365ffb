import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Actor, Stage } from './stage.js';

const KEY = 'asked for once';
const ROUNDS = 3;
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, several keys: "not free" is true. A process that was refused while another had the key is granted it once that
 * one was told of its release, also on a server that lags behind.
 */
export async function askedOnceInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history } = parts;
  const living = actors.filter(({ process }) => process.state === 'running');
  for (let round = 0; round < ROUNDS; round++) {
    const [holder, asking] = [living.at(round % living.length), living.at((round + 1) % living.length)];
    if (!holder || !asking || holder === asking) return;
    const held = ask(holder, PATIENCE_MS);
    await kernel.run(kernel.now + PATIENCE_MS, () => held.isOver);
    const refused = ask(asking, 0);
    await kernel.run(kernel.now + PATIENCE_MS, () => refused.isOver);
    if (refused.lock) await release(asking, refused.lock);
    // A service that the plan has closed refuses, or its session is over.
    if (!held.lock || !(await release(holder, held.lock)) || !refused.isNotFree) return;
    const again = ask(asking, 0);
    await kernel.run(kernel.now + PATIENCE_MS, () => again.isOver);
    if (again.isNotFree)
      history.violate(
        'refusal',
        `${asking.process.name} is told that a key is not free, which was released before`,
      );
    if (!again.lock || !(await release(asking, again.lock))) return;
  }

  /** @returns whether it still held */
  async function release({ process }: Actor, lock: Lock): Promise<boolean> {
    let said: string | undefined;
    const onSettled = (it: string) => (said = it);
    process.receive(() => void lock.release().then(onSettled, () => onSettled('unknown')));
    await kernel.run(kernel.now + PATIENCE_MS, () => said !== undefined);
    return said === 'released';
  }
}

function ask({ process, services: [service] }: Actor, waitMs: number) {
  const state = { lock: undefined as Lock | undefined, isNotFree: false, isOver: false };
  const tryAcquire = async (): Promise<void> => {
    try {
      const lock = await service?.tryAcquire(KEY, { waitMs });
      if (lock) state.lock = lock;
      state.isNotFree = !lock;
    } catch {
      // The store cannot be reached, or is closed.
    }
    state.isOver = true;
  };
  process.receive(() => void tryAcquire());
  return state;
}
