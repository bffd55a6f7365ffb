import { createHash } from 'node:crypto';
import type { ClockReading } from '../../common/clock.js';
import { ignoreFailure } from '../../common/promises.js';
import { textOf } from '../../connection/connection-errors.js';
import { RequestsByOwner } from '../../connection/owner-requests.js';
import type { Claim, LockSnapshot, ReleaseRequest } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { type Arguments, type RedisClient, type RedisNode, type CommandReply, WireKeys } from '../client.js';
import { RedisCommand, type TOO_LATE } from '../command.js';
import type { RedisConnection } from '../connection.js';
import { type AccessRights, asStoreError, explainWrongType, isDenied, isWrongType } from '../errors.js';
import { checkReserved, checkSlot, redisKeys, type RedisKeys } from '../keys.js';
import * as lua from './lua.generated.js';

/** Redis 6.2 added `GET` to `SET`. An older server replies with a syntax error. */
const TOO_OLD = 'Redis refused: it does not know SET … GET. Locks need Redis 6.2 or later.';

export abstract class ScriptCommand<R extends ScriptReply, Result> extends RedisCommand<Result> {
  private lastArgs: Arguments = [];

  readonly key: string;
  protected readonly kind: Claim['kind'];
  private readonly keys: WireKeys;

  protected abstract readonly script: Script<R>;

  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    protected readonly context: ScriptContext,
    { key, kind, keys = context.keysOf(key, kind) }: ScriptTarget,
  ) {
    super();
    this.key = key;
    this.kind = kind;
    this.keys = keys;
  }

  /** Makes the arguments when the command is written, maybe long after its caller asked. May throw to refuse the command. */
  protected abstract args(): Arguments;
  protected abstract onReply(reply: R): Result | typeof TOO_LATE;

  send(client: RedisClient): Promise<unknown> | CommandReply {
    this.lastArgs = this.args();
    return client.evalSha(this.script.sha, this.keys, this.lastArgs);
  }

  read(value: unknown, receivedAt: number): Result | typeof TOO_LATE {
    const { inFull } = this.script;
    const reply = typeof value === 'number' && inFull ? inFull(value) : (value as R);
    const [, serverMs] = reply;
    if (serverMs > 0) this.context.connection.serverClock.learn(serverMs, this.sent, receivedAt);
    return this.onReply(reply);
  }

  /** If the server does not know the script (`NOSCRIPT`), sends its text. Rejects with an error that explains any other refusal. */
  override async recover(client: RedisClient, error: unknown): Promise<unknown> {
    const { context, key, kind } = this;
    if (error instanceof Error && error.message.startsWith('NOSCRIPT')) {
      const { names } = this.keys;
      return client.call('eval', [this.script.lua, names.length, ...names, ...this.lastArgs], names[0]);
    }
    if (isDenied(error)) throw context.rights.refusal(error, key);
    if (textOf(error).includes('syntax error'))
      throw new LockStoreError(TOO_OLD, key, 'refused', { cause: error });
    if (!isWrongType(error)) throw asStoreError(error, key);
    const message = await explainWrongType(client, { kind, names: context.namesOf(key, kind) }, error).catch(
      () => undefined,
    );
    throw message === undefined
      ? asStoreError(error, key)
      : new LockStoreError(message, key, 'refused', { cause: error });
  }
}

interface ScriptTarget {
  /** The key of the lock, for error messages. */
  readonly key: string;
  /** The kind of claim, which decides the channel on which foreign clients are notified of a release. */
  readonly kind: Claim['kind'];
  /** The Redis keys of the script; default: the five keys of this lock. */
  readonly keys?: WireKeys;
}

type ScriptReply = readonly [kind: unknown, now: number, ...unknown[]];

/** The most keys of one kind of claim whose names are kept, some 800 bytes for each. */
const MAX_KNOWN = 2048;

/** The state that the scripts of one client share: the names of keys, the largest token, the server's time, requests under way. */
export class ScriptContext {
  /** The largest token that an owner of this process has used for certain. */
  private used = 0;
  /** The last token that an owner of this process has reserved, and has not given back. */
  private reserved = 0;
  /** The requests of each owner that the server may still execute. */
  readonly requestsByOwner = new RequestsByOwner();
  /** The names of locks that were used lately, by kind of claim and key. */
  private readonly known = { lock: keyMap(), exclusive: keyMap(), shared: keyMap(), permits: keyMap() };

  readonly keyPrefix: string;
  readonly isCluster: boolean;
  /** Whether tokens are counted together with Redisson's fenced lock. */
  readonly sharesTokens: boolean;

  constructor(
    readonly connection: RedisConnection,
    readonly rights: AccessRights,
    naming: { readonly keyPrefix: string; readonly isCluster: boolean; readonly sharedTokens: boolean },
  ) {
    this.keyPrefix = naming.keyPrefix;
    this.isCluster = naming.isCluster;
    this.sharesTokens = naming.sharedTokens;
  }

  /** No grant may carry a smaller token, whatever the server has forgotten. */
  get minToken(): number {
    return Math.max(this.used, this.reserved);
  }

  onGranted(token: number, lastToken: number): void {
    this.used = Math.max(this.used, token);
    this.reserved = Math.max(this.reserved, lastToken);
  }

  /**
   * Forgets the reserved tokens that a release gives back. If each grant of a contended key moved the tokens on by a whole block, they would
   * run ahead of the server's clock, and a server that has lost its data could not go on from its clock any more.
   */
  onRelease(used: ReleaseRequest['used']): void {
    if (!used) return;
    this.used = Math.max(this.used, used.token);
    if (this.reserved === used.lastToken) this.reserved = this.used;
  }

  /** The last fields of a script's options. They tell the script how to notify clients on this server. */
  get serverFields(): string {
    return `"cluster":${this.isCluster},"publish":"${this.connection.publish}"`;
  }

  /**
   * The deadline of a command that is sent now, in server time. After it the server refuses the command, because the client has stopped
   * waiting for the reply.
   */
  notAfter({ now }: ClockReading): number {
    const { serverClock, commandTimeoutMs } = this.connection;
    return serverClock.earliest(now) + Math.ceil(commandTimeoutMs);
  }

  /** Whether a lock can have this name, `keyPrefix` included. */
  canLock(name: string): boolean {
    try {
      return name !== this.keyPrefix && this.lockName(name.slice(this.keyPrefix.length)) !== '';
    } catch {
      return false;
    }
  }

  /** @throws LockKeyError for a name that belongs to another lock, or that a cluster cannot take */
  lockName(key: string): string {
    const name = this.keyPrefix + key;
    checkReserved(name);
    if (this.isCluster) checkSlot(name);
    return name;
  }

  /** @throws as `lockName` does */
  namesOf(key: string, kind: Claim['kind']): RedisKeys {
    return redisKeys(this.lockName(key), kind, this.sharesTokens);
  }

  /** @throws as `lockName` does */
  keysOf(key: string, kind: Claim['kind']): WireKeys {
    let keys = this.known[kind].get(key);
    if (!keys) {
      // Start a new Map instead of clearing this one: V8 keeps the later tables of a cleared Map alive (`common/collections.ts`).
      if (this.known[kind].size === MAX_KNOWN) this.known[kind] = keyMap();
      this.known[kind].set(key, (keys = new WireKeys(this.namesOf(key, kind))));
    }
    return keys;
  }
}

/**
 * The claim as the first fields of a script's options. Options are written by hand, because `JSON.stringify` takes several
 * times as long (`npm run bench -- --only serial`). No text in them needs an escape.
 */
export function claimFields(claim: Claim): string {
  const permits = claim.kind === 'permits' ? `,"weight":${claim.weight},"permits":${claim.permits}` : '';
  return `"kind":"${claim.kind}"${permits}`;
}

/**
 * Tells a script in front of its options what it may do without parsing them. The heads of `acquire.lua` and `release.lua` say when a
 * request is plain, and when it is short.
 */
export function flags({
  isPlain,
  isShort,
}: {
  readonly isPlain: boolean;
  readonly isShort: boolean;
}): string {
  return `${isPlain ? 'p' : '-'}${isShort ? 's' : '-'}`;
}

function keyMap(): Map<string, WireKeys> {
  return new Map();
}

/**
 * A Lua script and the shape of its reply. The second part of a reply is the server's time in ms, or 0. `pttl` is the remaining lease in ms,
 * negative for a key without an expiry. The heads of `lua/*.lua` say what the arguments mean.
 */
type Script<Reply> = {
  readonly lua: string;
  readonly sha: string;
  /** Expands a reply that is a single number, which most replies are, to the full reply. */
  readonly inFull?: (reply: number) => Reply;
};

export type ReplyOf<S> = S extends Script<infer Reply> ? Reply : never;

export type AcquireScriptReply =
  | readonly [kind: 0, now: number]
  | readonly [kind: 1, now: number, token: number, lastToken: number, waiting: number]
  | readonly [kind: 2, now: number, holder: string, pttl: number, ticket: number, others?: number]
  | readonly [kind: 3, now: number, holder: string, pttl: number, noTicket?: 0, others?: number]
  | readonly [kind: 4, now: number, leftMs: number];

export const SCRIPTS = {
  acquire: script<AcquireScriptReply>(lua.acquire, (token) => [1, Math.floor(token / 1000), token, token, 0]),
  attach: script<AcquireScriptReply>(lua.attach),
  release: script<readonly [wasHolder: 0 | 1, now: number]>(lua.release, (wasHolder) => [
    wasHolder as 0 | 1,
    0,
  ]),
  renew: script<
    | readonly [lost: 0, now: number]
    | readonly [renewed: 1, now: number, waiting: number]
    | readonly [tooLate: 2, now: number]
  >(lua.renew),
  renewPlain: script<
    readonly [tooLate: 0, now: number] | readonly [answered: 1, now: number, ...waitingOrLost: number[]]
  >(lua.renewPlain),
  force: script<readonly [outcome: 0 | 1 | 2, now: number]>(lua.force),
  inspect: script<
    readonly [
      mode: NonNullable<LockSnapshot['mode']> | '',
      now: number,
      pttl: number,
      lastToken: string,
      holders: number,
      ...holdersAndPending: string[],
    ]
  >(lua.inspect),
};

const ALL = Object.values(SCRIPTS);

/**
 * Loads the scripts that a server does not know on a new connection, so that all commands run them by hash and are executed in the order
 * in which they were sent. If a command had to send its script again in full, later commands would overtake it.
 *
 * A server that does not allow `SCRIPT` gets a script in full when it replies `NOSCRIPT`.
 */
export async function loadScripts(client: RedisClient): Promise<void> {
  if (!client.isCluster) return loadInto(client);
  // Do not wait: one node that does not reply must not delay the others.
  for (const node of client.masters()) ignoreFailure(loadInto(node));
}

async function loadInto(server: Pick<RedisNode, 'call'>): Promise<void> {
  try {
    const known = (await server.call('script', ['EXISTS', ...ALL.map(({ sha }) => sha)])) as number[];
    const unknown = ALL.filter((_, i) => known[i] !== 1);
    // The replies are not awaited: commands that follow on this connection are executed after the loads.
    for (const { lua } of unknown) server.call('script', ['LOAD', lua]).catch(() => undefined);
  } catch {
    // The server does not allow it, or the connection is lost. The next command finds out.
  }
}

function script<Reply>(source: string, inFull?: Script<Reply>['inFull']): Script<Reply> {
  const sha = createHash('sha1').update(source).digest('hex');
  return inFull ? { lua: source, sha, inFull } : { lua: source, sha };
}
