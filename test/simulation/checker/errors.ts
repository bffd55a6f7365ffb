import { inspect } from 'node:util';
import { isLockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { WorkFailed } from '../history/work-failed.js';
import type { History, Violation } from '../history/history.js';

const DOCUMENTED = [
  'LOCK_WAIT_TIMEOUT',
  'LOCK_LOST',
  'LOCK_NOT_HELD',
  'LOCK_STORE',
  'LOCK_DEADLOCK',
  'LOCK_SHUTDOWN',
];

/** A call fails with a documented error, or with that of its work. The programs make no mistake in options or keys. */
export function checkErrors({ calls }: History): readonly Violation[] {
  return calls.flatMap(({ call, process, error }) => {
    if (error === undefined || error instanceof WorkFailed) return [];
    if (isLockError(error) && DOCUMENTED.includes(error.code)) return [];
    return [{ rule: 'errors', text: `call ${call} of ${process}: ${inspect(error)}` }];
  });
}
