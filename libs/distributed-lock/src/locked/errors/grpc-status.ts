import type { LockErrorCode } from '../../port/lock.errors.js';
import type { GrpcCall } from '../nest/grpc-call.js';

/** Names and numbers of https://grpc.io/docs/guides/status-codes/. */
const GRPC = { cancelled: 1, unknown: 2, invalidArgument: 3, aborted: 10, internal: 13, unavailable: 14 };

const STATUS: Partial<Record<LockErrorCode, number>> = {
  LOCK_WAIT_TIMEOUT: GRPC.aborted,
  LOCK_STORE: GRPC.unavailable,
  LOCK_SHUTDOWN: GRPC.unavailable,
  LOCK_KEY: GRPC.invalidArgument,
  // Clients repeat a call with `aborted` or `unavailable` by themselves. The work of this call may have been done.
  LOCK_LOST: GRPC.unknown,
};

export interface GrpcStatus {
  readonly status: 'error';
  readonly code: number;
  readonly message: string;
  /** `lock-code`: the code of the lock error. Absent for a mistake of the program. */
  readonly metadata?: object;
}

/** @param message the public one; `undefined` for a mistake of the program, which the client does not learn */
export function grpcStatus(
  message: { readonly code: LockErrorCode; readonly message: string } | undefined,
  call: GrpcCall,
): GrpcStatus {
  if (!message) return { status: 'error', code: GRPC.internal, message: 'Internal server error' };
  const { code } = message;
  // The class comes from the call, because the server may use another copy of the package.
  const Metadata = call.metadata.constructor as new () => { set(name: string, value: string): void };
  const metadata = new Metadata();
  metadata.set('lock-code', code);
  return { status: 'error', code: STATUS[code] ?? GRPC.internal, message: message.message, metadata };
}

/** The status of a call whose client has gone. Nobody receives it. */
export const CANCELLED = { status: 'error', code: GRPC.cancelled, message: 'The client has left.' } as const;
