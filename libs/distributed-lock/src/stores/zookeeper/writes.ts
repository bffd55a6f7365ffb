import { CODE, ZookeeperRefusal } from './client/codes.js';
import { ConnectionLost } from './client/connection.js';
import { ANY_VERSION, check, multi, type Operation } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';

/** Somebody has deleted the presence of this client's session by hand, so other clients take over what it holds. */
export class PresenceMissing extends Error {}

/** One operation of a write, and a name for its failure. */
export interface Part {
  readonly name: 'document' | 'queue' | 'note' | 'mailbox';
  readonly operation: Operation;
}

export type WriteResult =
  | { readonly isDone: true; readonly zxid: number }
  /** Nothing was executed, because the operation of this name failed. */
  | { readonly isDone: false; readonly failed: Part; readonly index: number; readonly code: number };

/**
 * Executes all operations or none, if the session is still present.
 *
 * @throws PresenceMissing, and what `ZookeeperSession.send` throws
 */
export async function write(
  session: ZookeeperSession,
  presence: string,
  parts: readonly Part[],
): Promise<WriteResult> {
  const operations = [check(presence, ANY_VERSION), ...parts.map(({ operation }) => operation)];
  const { content, zxid } = await session.send(multi(operations));
  if (content.isDone) return { isDone: true, zxid };
  const { code } = content;
  const index = content.index - 1;
  const failed = parts[index];
  if (failed) return { isDone: false, failed, index, code };
  throw code === CODE.noNode ? new PresenceMissing() : new ZookeeperRefusal(code);
}

/** A write is repeated at most this often, plus once for each of its operations. */
const MAX_REPAIRS = 3;

/**
 * Writes. As long as `repair` mends what has made the write fail, writes again.
 *
 * @param repair whether it has mended something
 * @param operations the number of operations of the write
 */
export async function repeated<Result extends { readonly isDone: boolean }>(
  writeOnce: () => Promise<Result>,
  repair: (failure: Extract<Result, { readonly isDone: false }>) => Promise<boolean>,
  operations: number,
): Promise<Result> {
  for (let repairs = 0; ; repairs++) {
    const result = await writeOnce();
    if (result.isDone || repairs === MAX_REPAIRS + operations) return result;
    if (!(await repair(result as Extract<Result, { readonly isDone: false }>))) return result;
  }
}

/** @throws the error of a request that failed */
export function valueOf<Value>(settled: PromiseSettledResult<Value>): Value {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}

/**
 * The reading that was sent behind an executed write.
 *
 * @throws ConnectionLost for any failure of the reading, because the error of a refusal would say that the write was
 * refused
 */
export function readBehindWrite<Value>(reading: PromiseSettledResult<Value>): Value {
  if (reading.status === 'rejected') throw new ConnectionLost(reading.reason as Error);
  return reading.value;
}
