import { HAND_OFF_BUDGET } from '../../../libs/distributed-lock/src/lock/core/contention.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { SimProcess } from '../kernel/process.js';
import type { Stage } from './stage.js';

interface Crowd {
  readonly key: string;
  readonly callers: number;
  /** Each caller asks again and again for so long. */
  readonly lastsMs: number;
  /** Each process comes so much later than the one before it, which is told then that others wait. */
  readonly apartMs: number;
}

/** Each service asks once, so that nobody's request makes up for a release that grants nobody. */
const LINE: Crowd = { key: 'line', callers: 1, lastsMs: 0, apartMs: 0 };
/** In each process callers wait while another works. */
const CROWD: Crowd = { key: 'crowd', callers: 3, lastsMs: 1500, apartMs: 200 };
const WORK_MS = 4;
/** A process hands its lock on to its own callers for so long at most, and then lets the caller end. */
const TURN_MS = HAND_OFF_BUDGET.maxMs + 2 * WORK_MS;
/** A turn ends before all callers of its process are through, and an owner that leaves asks anew behind the others. */
const ROUNDS = 3;
const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;

/**
 * docs/guarantees.md, liveness: a release grants the lock to one who waits, and local hand-offs end while others wait. So each
 * of a crowd has its turn after one turn of each other owner.
 */
export async function crowdInCalm(stage: Stage): Promise<void> {
  await watch(stage, LINE);
  await watch(stage, CROWD);
}

async function watch({ actors, parts }: Stage, { key, callers, lastsMs, apartMs }: Crowd): Promise<void> {
  const { kernel, history, handOffMs } = parts;
  const until = kernel.now + lastsMs;
  const running = actors.filter(({ process }) => process.state === 'running');
  const owners = running.flatMap(({ services }) => services).length;
  const mostMs = ROUNDS * owners * (handOffMs + TURN_MS) + SLACK_MS;
  if (mostMs > RECHECK_MS) return;
  let inside = 0;
  let longestMs = 0;

  const caller = async (process: SimProcess, service: LockService): Promise<void> => {
    do {
      const askedAt = kernel.now;
      await service.withLock(key, { waitMs: Infinity }, async () => {
        longestMs = Math.max(longestMs, kernel.now - askedAt);
        await new Promise<void>((resolve) => process.setTimeout(WORK_MS, resolve));
      });
    } while (kernel.now < until);
  };
  for (const [i, { process, services }] of running.entries()) {
    const inIt = services.flatMap((service) => Array.from({ length: callers }, () => service));
    inside += inIt.length;
    const onEnd = () => (inside -= 1);
    // A service that the plan has closed refuses.
    kernel.after(i * apartMs, () =>
      process.receive(() => inIt.forEach((service) => void caller(process, service).then(onEnd, onEnd))),
    );
  }
  await kernel.run(until + 2 * mostMs, () => inside === 0);
  if (inside > 0)
    history.violate('hand-off', `${inside} callers of a ${key} wait for more than ${2 * mostMs} ms`);
  else if (longestMs > mostMs)
    history.violate(
      'hand-off',
      `a caller of a ${key} waited ${Math.round(longestMs)} ms, and ${mostMs} ms are enough`,
    );
}
