import { createHash } from 'node:crypto';
import { textOf } from '../../connection/connection-errors.js';
import type { KeyPage, ListRequest, LockSnapshot } from '../../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import { snapshotsOf } from '../../port/capabilities.js';
import type { RedisClient, RedisNode } from '../client.js';
import { isDenied, isWrongType } from '../errors.js';
import type { ScriptContext } from '../scripts/script-command.js';

/** One page looks through this many steps of SCAN at most, so that it ends soon in a server full of other keys. */
const MAX_STEPS = 10;
/** How many keys the server looks at in one step. */
const STEP_KEYS = 1000;
/** A page ends when it has looked at this many hashes, which may all be data of the application. */
const MAX_LOOKS = 2000;
/** The Redis types that locks have, in the order in which the server is scanned for them. */
const TYPES = ['hash', 'zset'] as const;
const SLOTS = 16_384;

/** Runs `write` when the connection is ready, as one request of the store: with its timeout, and with errors that say what to do. */
type Ask = <Reply>(write: (client: RedisClient) => Promise<Reply>) => Promise<Reply>;

/**
 * Why a name is on the page: the caller asked for exactly this name, its hash looks like a lock, or owners wait for it. If the key
 * turns out to be no lock, the page leaves out a name of the first two kinds. A name that owners wait for makes the page fail.
 */
type Evidence = 'asked for' | 'looks held' | 'waited for';

interface NamesFound {
  readonly names: ReadonlyMap<string, Evidence>;
  readonly cursor: string | undefined;
}

/**
 * Lists one page of the locks that are held or waited for.
 *
 * @throws LockStoreError for a key that owners wait for and that cannot be read, and as `findNames` does
 */
export async function listPage(
  request: ListRequest,
  scripts: ScriptContext,
  { ask, inspect }: { readonly ask: Ask; readonly inspect: (key: string) => Promise<LockSnapshot | null> },
): Promise<KeyPage> {
  const { keyPrefix } = scripts;
  const wanted = { prefix: keyPrefix + request.prefix, canLock: (name: string) => scripts.canLock(name) };
  const { names, cursor } = await findNames(ask, wanted, request);
  const keys = [...names.keys()].map((name) => name.slice(keyPrefix.length));
  const found = await snapshotsOf(keys, (key) =>
    inspect(key).catch((error: LockStoreError) => {
      if (isNoLock(error, names.get(keyPrefix + key))) return null;
      throw error;
    }),
  );
  return { ...found, ...(cursor !== undefined && { cursor }) };
}

/**
 * Finds locks that are held or waited for, those of other libraries as well.
 *
 * 1. The server picks keys by their type while it scans: first hashes, because a lock is a hash, then the sorted sets of queues and of
 *    permits. So the token counters, which stay for a day after their lock, are never sent to this process.
 * 2. A hash may be data of the application. Two short commands tell whether it looks like a lock.
 * 3. Each page continues the scan at the cursor of the page before, on a cluster from master to master. A cursor of SCAN is worthless
 *    after a restart of its server and on another master, so the scan starts again from the beginning if the servers have changed.
 *
 * @param prefix what the names begin with, prefix of the store included
 * @param canLock whether a lock can have this name
 * @throws LockStoreError on the page after the last one, if some slots of a cluster have no master that answers
 */
async function findNames(
  ask: Ask,
  { prefix, canLock }: { readonly prefix: string; readonly canLock: (name: string) => boolean },
  { limit, cursor, prefix: askedFor }: ListRequest,
): Promise<NamesFound> {
  const servers = await serversOf(ask);
  const scans = TYPES.flatMap((type) => servers.nodes.map((node) => ({ type, node })));
  let { scan, position } = startOf(cursor, servers.id);
  const names = new Map<string, Evidence>();
  if (scan >= scans.length) {
    if (servers.uncovered > 0) throw notWholeError(servers);
    return { names, cursor: undefined };
  }
  if (cursor === undefined && askedFor !== '' && canLock(prefix)) names.set(prefix, 'asked for');
  const add = (found: readonly string[], evidence: Evidence): void => {
    for (const name of found.filter(isLockName)) names.set(name, evidence);
  };
  const isLockName = (name: string): boolean => name.startsWith(prefix) && canLock(name);
  let looks = 0;
  for (let step = 0; step < MAX_STEPS && names.size < limit && looks < MAX_LOOKS; step++) {
    const { type, node } = scans[scan] as (typeof scans)[number];
    const pattern = `${type === 'hash' ? '' : '*'}${escaped(prefix)}*`;
    const words = [position, 'MATCH', pattern, 'COUNT', STEP_KEYS, 'TYPE', type];
    const [next, keys] = (await ask(() => node.call('scan', words))) as [string, string[]];
    if (type === 'hash') {
      looks += keys.length;
      add(await likeLocks(keys.filter(isLockName), ask), 'looks held');
    } else {
      for (const { permits, waitedFor } of keys.map(lockNamesBeside)) {
        add(permits, 'looks held');
        add(waitedFor, 'waited for');
      }
    }
    position = next;
    if (next === '0') scan += 1;
    if (scan === scans.length) break;
  }
  const isOver = scan === scans.length && servers.uncovered === 0;
  return { names, cursor: isOver ? undefined : `${servers.id}.${scan}.${position}` };
}

function escaped(prefix: string): string {
  return prefix.replace(/[*?[\]\\]/g, '\\$&');
}

/** The field of a plain lock, which is its only one: client and thread of the owner. */
const OWNER = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}:-?\d+$/i;

/**
 * Picks the names whose hash has the shape of a lock: one field that is an owner, or a mode. The script that inspects them looks
 * closer.
 */
async function likeLocks(names: readonly string[], ask: Ask): Promise<readonly string[]> {
  if (names.length === 0) return [];
  const lengths = await ask((client) => Promise.all(names.map((name) => peek(client, 'hlen', [name]))));
  const facts = await ask((client) =>
    Promise.all(
      names.map(async (name, i) => {
        if (lengths[i] === undefined || lengths[i] === 0) return undefined;
        return lengths[i] === 1 ? peek(client, 'hkeys', [name]) : peek(client, 'hget', [name, 'mode']);
      }),
    ),
  );
  return names.filter((_, i) => {
    const fact = facts[i];
    if (Array.isArray(fact)) return OWNER.test(String(fact[0]));
    return fact === 'read' || fact === 'write';
  });
}

/**
 * Runs a command that reads one key. Resolves with `undefined` if the key became something else meanwhile, or this user may not read it.
 */
async function peek(client: RedisClient, command: string, words: readonly string[]): Promise<unknown> {
  return client.call(command, words, words[0]).catch((error: unknown) => {
    if (isWrongType(error) || isDenied(error)) return undefined;
    throw error;
  });
}

/** Whether this error of the inspect script says that the key is no lock, so that `list` leaves it out instead of failing the page. */
function isNoLock({ reason, cause }: LockStoreError, evidence: Evidence | undefined): boolean {
  if (reason !== 'refused') return false;
  return evidence === 'asked for' || (evidence === 'looks held' && isWrongType(cause));
}

/** The servers whose keys are scanned. */
interface Servers {
  /** Those that answer, in the order in which they are scanned. */
  readonly nodes: readonly RedisNode[];
  /** A hash of the servers and their slots. It changes when a server restarts and when masters or slots change. */
  readonly id: string;
  /** Masters of a cluster that do not answer, and why. */
  readonly unanswered: readonly string[];
  /** How many slots of a cluster have no master that answers. */
  readonly uncovered: number;
}

async function serversOf(ask: Ask): Promise<Servers> {
  const masters = await ask(mastersOf);
  // Ask each server in a request of its own, with its own timeout, so that one that is silent does not hide the others.
  const answers = await Promise.allSettled(masters.map(({ node }) => ask(() => runOf(node))));
  const found = masters.map((master, i) => ({ ...master, answer: answers[i] as (typeof answers)[number] }));
  const answering = found.filter(({ answer }) => answer.status === 'fulfilled');
  const uncovered = answering.reduce((left, { slots }) => left - slots, SLOTS);
  const parts = found.flatMap(({ name, answer }) => [
    name,
    answer.status === 'fulfilled' ? answer.value : '',
  ]);
  if (uncovered > 0) await ask(async (client) => client.refreshSlots?.());
  return {
    nodes: answering.flatMap(({ node }) => node ?? []),
    id: createHash('sha1').update(parts.join(' ')).digest('hex').slice(0, 8),
    unanswered: found.flatMap(({ address, answer }) =>
      answer.status === 'rejected' ? [`${address}: ${textOf(answer.reason)}`] : [],
    ),
    uncovered,
  };
}

interface Master {
  /** The address that the cluster announces. The client may reach the node by another address. */
  readonly address: string;
  /** The address and the ranges of its slots. */
  readonly name: string;
  /** How many slots this master serves. A server without a cluster counts as one with all slots. */
  readonly slots: number;
  /** `undefined` while the client has no connection to it. */
  readonly node: RedisNode | undefined;
}

/**
 * Asks the cluster for its present masters, and finds the client's connection to each.
 *
 * @throws LockStoreError if the client has the same connection for two masters: slots have moved, and it has not noticed yet
 */
async function mastersOf(client: RedisClient): Promise<readonly Master[]> {
  if (!client.isCluster)
    return [{ address: client.address, name: '', slots: SLOTS, node: client.masters()[0] }];
  const masters = new Map<string, Master>();
  for (const [first, last, place] of await slotRanges(client)) {
    if (!place) continue;
    const address = `${place[0]}:${place[1]}`;
    const known = masters.get(address) ?? { address, name: address, slots: 0, node: client.ownerOf?.(first) };
    const slots = known.slots + last - first + 1;
    masters.set(address, { ...known, name: `${known.name} ${first}-${last}`, slots });
  }
  const nodes = [...masters.values()].flatMap(({ node }) => node?.address ?? []);
  if (new Set(nodes).size < nodes.length) {
    client.refreshSlots?.();
    const message =
      'Redis: slots of the cluster have moved to masters that this client does not know yet. List again.';
    throw new LockStoreError(message, undefined, 'unready');
  }
  return [...masters.values()].sort((a, b) => (a.address < b.address ? -1 : 1));
}

type SlotRange = readonly [first: number, last: number, master?: readonly [host: string, port: number]];

/** The slots of the cluster and their masters, from the master that answers first. */
async function slotRanges(client: RedisClient): Promise<readonly SlotRange[]> {
  const replies = client.masters().map((node) => node.call('cluster', ['SLOTS']));
  try {
    return (await Promise.any(replies)) as readonly SlotRange[];
  } catch (error) {
    const [first] = (error as AggregateError).errors as unknown[];
    throw first ?? new LockStoreError('Redis: no master of the cluster is known.', undefined, 'unreachable');
  }
}

/** The id of this run of the server. A cursor of SCAN is worthless after a restart. Empty if the user has no right to `INFO`. */
async function runOf(node: RedisNode | undefined): Promise<string> {
  if (!node) throw new Error('the client has no connection to it');
  const text = await node.call('info', ['server']).catch((error: unknown) => {
    if (isDenied(error)) return '';
    throw error;
  });
  return /run_id:(\w+)/.exec(String(text))?.[1] ?? '';
}

/** Where this page begins to scan: where the page before ended, or at the first server if the servers have changed since. */
function startOf(cursor: string | undefined, id: string): { scan: number; position: string } {
  if (cursor === undefined) return { scan: 0, position: '0' };
  const [, servers, scan, position] = /^([\da-f]{8})\.(\d+)\.(\d+)$/.exec(cursor) ?? [];
  if (servers === undefined || scan === undefined || position === undefined) {
    throw new LockConfigurationError(
      'cursor must be the cursor of a page of this list. Begin again without one.',
    );
  }
  return servers === id ? { scan: Number(scan), position } : { scan: 0, position: '0' };
}

function notWholeError({ uncovered, unanswered }: Servers): LockStoreError {
  const who = unanswered.length > 0 ? ` (${unanswered.join('; ')})` : '';
  const message = `Redis: the list is not whole. No master answers for ${uncovered} of the ${SLOTS} slots of the cluster${who}, so the locks there are missing. List again when the cluster is whole.`;
  return new LockStoreError(message, undefined, 'unready');
}

const QUEUE = /^nest_lock_queue:(?:\{([^}]*)\}$|\{[^}]*\}:(.+)$|([^]+)$)/;
const PERMITS = /^([^]+):timeout$/;

/** The names of the locks that a sorted set with this key may belong to: as the queue of a lock, or as its permits. */
function lockNamesBeside(key: string): {
  readonly waitedFor: readonly string[];
  readonly permits: readonly string[];
} {
  const [, whole, tagged, untagged] = QUEUE.exec(key) ?? [];
  const queued = whole ?? tagged ?? untagged;
  const [, braced = ''] = PERMITS.exec(key) ?? [];
  // Redisson keeps the permits of x and of {x} in the same sorted set, so it may belong to either name.
  const permits = braced.includes('{') ? [braced, ...(/^\{([^{]+)\}$/.exec(braced)?.slice(1) ?? [])] : [];
  return { waitedFor: queued === undefined ? [] : [queued], permits };
}
