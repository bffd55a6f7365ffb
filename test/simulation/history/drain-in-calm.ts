import { isLockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { GRACE_MS } from '../plan/settings.js';
import { graceOf } from './drains.js';
import type { Stage } from './stage.js';

const SLACK_MS = 100;
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, in your process: while an application closes, a flow that holds a lock acquires others, and any other call is
 * refused at once, also one of a flow that has lost its lock to the end of the grace. The services of one process are closed by this, and the others follow.
 */
export async function drainInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history, handOffMs } = parts;
  const [actor] = actors.filter((it) => it.process.state === 'running' && graceOf(it) === GRACE_MS);
  const service = actor?.services[0];
  if (!actor || !service || handOffMs + SLACK_MS > GRACE_MS) return;
  let isHeld = false;
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  let nested: unknown = 'not settled';
  let idle: unknown = 'not settled';
  let late: unknown = 'not settled';
  const call = async (): Promise<unknown> =>
    service.withLock('acquired by a call that drains', () => 'granted').catch((error: unknown) => error);
  const work = async ({ signal }: Lock): Promise<void> => {
    isHeld = true;
    await begun;
    nested = await call();
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    late = await call();
  };
  actor.process.receive(() => void service.withLock('drains', work).catch(() => undefined));
  await kernel.run(kernel.now + PATIENCE_MS, () => isHeld);
  // A service that the plan has closed refuses.
  if (!isHeld) return;
  actor.process.receive(() => {
    void service.drain();
    void call().then((outcome) => (idle = outcome));
    begin();
  });
  await kernel.run(kernel.now + GRACE_MS - 1);
  if (nested !== 'granted')
    history.violate(
      'errors',
      `a flow that holds a lock acquires no other while its service drains: ${String(nested)}`,
    );
  if (!isLockError(idle) || idle.code !== 'LOCK_SHUTDOWN')
    history.violate('errors', `a service that drains does not refuse a call without a lock: ${String(idle)}`);
  await kernel.run(kernel.now + PATIENCE_MS, () => late !== 'not settled');
  if (!isLockError(late) || late.code !== 'LOCK_SHUTDOWN')
    history.violate('errors', `a flow that has lost its lock to a drain acquires another: ${String(late)}`);
}
