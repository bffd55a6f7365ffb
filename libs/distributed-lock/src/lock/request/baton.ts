import { createHash } from 'node:crypto';
import { type Claim, isPlaceholder } from '../../port/lock-store.js';
import { LockConfigurationError, LockKeyError } from '../../port/lock.errors.js';
import { checkOptions } from '../../port/option-checks.js';
import type { CallOptions } from '../lock.js';
import { CALL_RULES, checkCallOptions } from './lock-options.js';
import { checkKeys, claimOf } from './lock-request.js';

/** Raised whenever an older release could not read a baton, or would read it wrong. */
const FORMAT = 1;
const TEXT = /^nest-lock-(\d+)\.([\w-]+)\.([0-9a-f]{16})$/;

/** A detached lock, and the store that has it. */
export interface Baton {
  readonly store: string;
  readonly keyPrefix: string;
  readonly key: string;
  readonly claim: Claim;
  /** The id of the owner that was detached. The store has the lock under `placeholderOf` this id. */
  readonly owner: string;
  readonly token: number;
}

/** Writes the baton as a text of letters, digits, `.`, `-` and `_`, which needs no escape in JSON or in a URL. */
export function writeBaton({ claim, ...baton }: Baton): string {
  const { kind, ...permits } = claim;
  const mode = kind === 'exclusive' || kind === 'shared' ? { mode: kind } : {};
  const body = Buffer.from(JSON.stringify({ ...baton, options: { ...mode, ...permits } })).toString(
    'base64url',
  );
  return `nest-lock-${FORMAT}.${body}.${checksumOf(body)}`;
}

/**
 * Reads a baton that may have come a long way. Its checksum finds accidents. It is no signature, so whatever it says is checked: it can
 * name a detached lock only, and never the lock of an owner that works.
 *
 * @throws LockKeyError for a text that is no whole baton
 * @throws LockConfigurationError for a baton of another format, of another kind of store or of another `keyPrefix`
 */
export function readBaton(text: string, here: Pick<Baton, 'store' | 'keyPrefix'>): Baton {
  const [, format, body = '', checksum] = (typeof text === 'string' && TEXT.exec(text)) || [];
  if (format !== undefined && Number(format) !== FORMAT) {
    throw new LockConfigurationError(
      `The baton has format ${format}, and this release reads format ${FORMAT}: another release of nestjs-distributed-lock has written it. Run one release in both processes while locks are passed on.`,
    );
  }
  if (checksum === undefined || checksum !== checksumOf(body)) throw mangledError();
  const baton = parse(body);
  for (const name of ['store', 'keyPrefix'] as const) {
    if (baton[name] === here[name]) continue;
    throw new LockConfigurationError(
      `The baton for "${baton.key}" is of a service with the ${name} "${baton[name]}", and this one has "${here[name]}". Attach it by a service of the same store and keyPrefix.`,
    );
  }
  return baton;
}

/** @throws LockKeyError unless every part has the type and the range that `writeBaton` gives it */
function parse(body: string): Baton {
  try {
    const { options = {}, ...rest } = JSON.parse(Buffer.from(body, 'base64url').toString()) as Written;
    const { mode, permits, weight } = CALL_RULES.acquire;
    checkOptions('baton', options, { mode, permits, weight });
    checkCallOptions(options);
    const { store, keyPrefix, key, owner, token } = rest;
    const isText = [store, keyPrefix, key, owner].every((part) => typeof part === 'string');
    if (!isText || !Number.isSafeInteger(token) || isPlaceholder(owner)) throw mangledError();
    checkKeys(key);
    return { store, keyPrefix, key, owner, token, claim: claimOf(options) };
  } catch {
    throw mangledError();
  }
}

type Written = Omit<Baton, 'claim'> & { readonly options?: Pick<CallOptions, 'mode' | 'permits' | 'weight'> };

function checksumOf(body: string): string {
  return createHash('sha256').update(body).digest('hex').slice(0, 16);
}

function mangledError(): LockKeyError {
  return new LockKeyError(
    'The baton is not what lock.detach() returned: it was cut or changed on its way. Pass the whole text on, as it is.',
    undefined,
  );
}
