import { LockKeyError } from '../port/lock.errors.js';

/** The part of a client that says what it puts before the keys of a command. */
interface PrefixingClient {
  /** Only clients of ioredis have it. */
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string | Buffer };
  /** Only cluster clients of node-redis have it. */
  readonly nodeByAddress?: unknown;
  readonly _keyPrefix?: string | Buffer;
}

/** The text that a client of a cluster puts before each key. It is part of what the cluster hashes. '' for any other client. */
export function clusterPrefixOf(client: object): string {
  const { isCluster, options, nodeByAddress, _keyPrefix } = client as PrefixingClient;
  if (nodeByAddress) return String(_keyPrefix ?? '');
  return isCluster ? String(options?.keyPrefix ?? '') : '';
}

/**
 * The name of the fence of `key`, in the slot of the key once the client has put `prefix` before both.
 *
 * @throws LockKeyError for a key whose slot no other name can have
 */
export function redisFenceKey(key: string, prefix: string): string {
  const hashed = hashedPart(key);
  const tag = hashed === undefined ? '' : `:${key}`;
  const names = [`nest_lock_fence:{${hashed ?? key}}${tag}`, `nest_lock_fence:{${prefix}${key}}`];
  const slotOf = (name: string) => hashedPart(prefix + name) ?? prefix + name;
  const name = names.find((each) => slotOf(each) === slotOf(key));
  if (name !== undefined && (hashed !== undefined || !key.includes('}'))) return name;
  const why =
    key.includes('}') || prefix === ''
      ? 'has a closing brace but no hash tag'
      : `has no hash tag, and the keyPrefix "${prefix}" of the client has a brace`;
  throw new LockKeyError(`"${key}" ${why}: no fence can lie in its slot.`, key);
}

/** A cluster hashes the text in the first braces; if there is none, the whole name. */
function hashedPart(name: string): string | undefined {
  const open = name.indexOf('{');
  const close = name.indexOf('}', open + 1);
  return open >= 0 && close > open + 1 ? name.slice(open + 1, close) : undefined;
}
