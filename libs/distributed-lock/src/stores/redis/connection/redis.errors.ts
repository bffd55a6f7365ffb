import { LockStoreError } from '../../../port/lock.errors.js';
import { permitsKey } from '../redis.keys.js';

/** Answers that mean "not now": the state of the server or of the network will change by itself. */
const UNREADY =
  /\b(OOM|READONLY|LOADING|BUSY|MISCONF|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|NOGOODSLAVE)\b/;
/** ioredis found the connection going down and, having no queue, dropped the command. */
const NEVER_WRITTEN = /Stream isn't writeable/;
/** Any answer of the server starts with an upper-case word; what the client says about a connection does not. */
const ANSWER = /^[A-Z]{3,}\b/;

/** What our own scripts say, see holders.lua. */
const NO_LOCK = 'data of the application';
const TWINS = 'permits of two names';

export function isWrongType(error: unknown): boolean {
  return error instanceof Error && /\bWRONGTYPE\b/.test(error.message);
}

/** The server has said so; all else is what the client says about a connection. */
export function isAnswer(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError' && ANSWER.test(describe(error));
}

interface ClientError {
  command?: { args?: unknown };
  /** Of a cluster client. */
  readonly lastNodeError?: unknown;
}

/**
 * Takes the arguments of its command from an error of the client: of one that was refused to connect they are its user and
 * password, and the error becomes the `cause` of what callers log.
 */
export function forgetArguments(error: unknown): void {
  if (typeof error !== 'object' || error === null) return;
  const { command, lastNodeError } = error as ClientError;
  if (typeof command === 'object' && command !== null) delete command.args;
  if (lastNodeError !== error) forgetArguments(lastNodeError);
}

/** Tells apart what the caller must do: wait, give up, or fix something. */
export function asStoreError(cause: unknown, key: string | undefined): LockStoreError {
  if (cause instanceof LockStoreError) return cause;
  const text = cause instanceof Error ? describe(cause) : String(cause);
  if (isAnswer(cause)) {
    if (UNREADY.test(text)) {
      return new LockStoreError(`Redis is not ready: ${text}`, key, 'unready', { cause });
    }
    return new LockStoreError(`Redis refused: ${text}`, key, 'refused', { cause });
  }
  return NEVER_WRITTEN.test(text) ? unreachable(text, key, cause) : unknown(text, key, cause);
}

export function unknown(detail: string, key: string | undefined, cause?: unknown): LockStoreError {
  return new LockStoreError(`Redis did not answer: ${detail}`, key, 'unknown', { cause });
}

/** What a second copy failed with, whose first copy was never answered and may still be executed. */
export function asUnsure(error: LockStoreError): LockStoreError {
  if (error.reason === 'refused' || error.reason === 'unknown') return error;
  return new LockStoreError(error.message, error.key, 'unknown', { cause: error });
}

export function unreachable(detail: string, key: string | undefined, cause?: unknown): LockStoreError {
  return new LockStoreError(`Redis could not be reached: ${detail}`, key, 'unreachable', { cause });
}

/** Never written, and nothing that the server could be blamed for. */
export function callerHasLeft(key: string): LockStoreError {
  return new LockStoreError('Its caller has left before it was asked', key, 'refused');
}

/** Some errors of sockets say nothing but their code. */
export function describe(error: Error): string {
  return error.message || ('code' in error ? String(error.code) : error.name);
}

interface WrongType {
  /** Of the lock in Redis. */
  readonly name: string;
  readonly key: string;
  /** The type that Redis tells. */
  readonly found: string;
}

const OWN_NAME =
  'a lock needs a name of its own, and one name is either a lock or permits. Choose another key, or set keyPrefix (now part of the name) to keep locks apart from data.';

/** The key of the lock holds something else. */
export function wrongType({ name, key, found }: WrongType, cause: unknown): LockStoreError {
  const text = cause instanceof Error ? cause.message : '';
  if (text.includes(TWINS)) {
    const message = `The permits of "${name}" are kept in "${permitsKey(name)}", by Redisson's rule, and so are those of the same name without or with its braces, which are in use. Choose another key.`;
    return new LockStoreError(message, key, 'refused', { cause });
  }
  const data = text.includes(NO_LOCK) ? 'it holds data of the application, which is left as it is; ' : '';
  const message = `"${name}" is a ${found} in Redis, not a lock of this kind: ${data}${OWN_NAME}`;
  return new LockStoreError(message, key, 'refused', { cause });
}

/** Another key of the lock does. */
export function wrongPart(
  { name, key, found, part }: WrongType & { readonly part: string },
  cause: unknown,
): LockStoreError {
  const message = `"${part}" is a ${found} in Redis, where the lock "${name}" keeps something else. Choose another key for the lock, or delete that one if nobody needs it.`;
  return new LockStoreError(message, key, 'refused', { cause });
}
