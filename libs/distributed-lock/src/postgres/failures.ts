import { LockConfigurationError } from '../port/lock.errors.js';
import { textOf } from '../connection/connection-errors.js';
import { nestedErrors, type SqlFailure } from '../sql/database.js';

/**
 * Matches a SQLSTATE: five characters, at least one of them a digit. Error codes of Node, such as EPIPE, have no digit. Those of
 * Prisma begin with P and a digit from 1 to 9.
 */
const SQL_STATE = /^(?!P[1-9])(?=.*\d)[0-9A-Z]{5}$/;
/** The SQLSTATE of an error, also if an ORM has wrapped it; `undefined` for an error that the server did not send. */
export function sqlStateOf(error: unknown): string | undefined {
  return nestedErrors(error)
    .flatMap(({ code, originalCode }) => [code, originalCode])
    .find((code): code is string => typeof code === 'string' && SQL_STATE.test(code));
}

const OWN_WORDS: Readonly<Record<string, SqlFailure>> = {
  '25006': unready(
    'it takes no writes now (25006): a read replica, a primary that is being replaced, or default_transaction_read_only is on',
    { isFatal: true },
  ),
  '53300': unready('it has no connection left (53300). Raise max_connections', { isFatal: true }),
  '57014': unready('the statement was cancelled, mostly by a timeout (57014)'),
  '55P03': unready('another transaction holds the row of the lock, or the lock table, for too long (55P03)', {
    mayBeOne: true,
    mayRepeat: true,
    isBlocked: true,
  }),
  // The table was dropped: connect again, because each new connection creates a missing table.
  '42P01': unready('the lock table was dropped (42P01)', { mayRepeat: true, isFatal: true }),
  '28P01': { reason: 'refused', detail: 'user or password is wrong (28P01)', isFatal: true },
  '42501': {
    reason: 'refused',
    detail: 'its user lacks SELECT, INSERT, UPDATE or DELETE on the lock table (42501)',
  },
  '40001': unready('other transactions came first, again and again (40001)', { mayRepeat: true }),
  '40P01': unready('other transactions came first, again and again (40P01)', { mayRepeat: true }),
};

function unready(detail: string, flags: Partial<SqlFailure> = {}): SqlFailure {
  return { reason: 'unready', detail, ...flags };
}

/** Matches the message of a server that accepts this user only with TLS. */
const NO_TLS = /no encryption|SSL off/;
/** Matches SQLSTATEs of a server that rejects this client, because of its user, or because the database does not exist. */
const NOT_LET_IN = /^(28|3D)/;
/** Matches SQLSTATEs of a server that has ended the connection or has failed. It may have committed the statement before. */
const ENDED = /^(08|40003|57P0[12]|58|XX)/;
/** Matches SQLSTATEs of a server that lacks a resource, is starting or is stopping. It has not executed the statement. */
const NOT_NOW = /^(53|57|72)/;

export function postgresFailure(error: unknown): SqlFailure {
  if (error instanceof LockConfigurationError) return { reason: 'refused', detail: error.message };
  const state = sqlStateOf(error);
  const message = textOf(error);
  if (state === undefined) return { reason: 'unknown', detail: message, isFatal: true };
  const known = OWN_WORDS[state];
  if (known) return known;
  const advice = NO_TLS.test(message)
    ? '. Connect with TLS: add ?sslmode=verify-full to the URL, or give the option ssl'
    : '';
  const detail = `${message} (${state})${advice}`;
  if (ENDED.test(state)) return { reason: 'unknown', detail, isFatal: true };
  if (NOT_NOW.test(state)) return { reason: 'unready', detail, isFatal: true };
  if (NOT_LET_IN.test(state)) return { reason: 'refused', detail, isFatal: true };
  return { reason: 'refused', detail, mayBeOne: true };
}
