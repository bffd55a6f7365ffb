import type { Claim } from '../../../port/claim.js';
import type { ClockReading } from '../../../time/clock.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import { checkReserved, checkSlot, redisKeys, type RedisKeys } from '../redis.keys.js';
import type { AccessRights } from './access-rights.js';
import { WireKeys } from './evalsha.js';

/** The most keys of one kind of claim whose names are kept, some 800 bytes for each. */
const MOST_KNOWN = 2048;

/** The state that the scripts of one client share: the names of keys, the largest token, the server's time. */
export class ScriptContext {
  /** The largest token seen: no grant may carry a smaller one, whatever the server has forgotten. */
  minToken = 0;
  /** The names of locks that were used lately, by kind of claim and key. */
  private readonly known = { lock: keyMap(), exclusive: keyMap(), shared: keyMap(), permits: keyMap() };

  private readonly keyPrefix: string;
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

  onToken(token: number): void {
    this.minToken = Math.max(this.minToken, token);
  }

  /** The last fields of a script's options: where its notifications go. */
  get serverFields(): string {
    return `"cluster":${this.isCluster},"publish":"${this.connection.publish}"`;
  }

  /** In server time: the server refuses a request as expired once the deadline of its command is over. */
  notAfter({ now }: ClockReading): number {
    const { serverClock, commandTimeoutMs } = this.connection;
    return serverClock.earliest(now) + Math.ceil(commandTimeoutMs);
  }

  /** @param serverMs what the reply told, or 0 */
  onServerTime(serverMs: number, sent: ClockReading, receivedAt: number): void {
    if (serverMs > 0) this.connection.serverClock.learn(serverMs, sent, receivedAt);
  }

  /** @throws LockKeyError for a name that belongs to another lock, or that a cluster cannot take */
  lockName(key: string): string {
    const name = this.keyPrefix + key;
    checkReserved(name);
    if (this.isCluster) checkSlot(name);
    return name;
  }

  /** Throws as `lockName`. */
  namesOf(key: string, kind: Claim['kind']): RedisKeys {
    return redisKeys(this.lockName(key), kind, this.sharesTokens);
  }

  /** Throws as `lockName`. */
  keysOf(key: string, kind: Claim['kind']): WireKeys {
    const known = this.known[kind];
    let keys = known.get(key);
    if (!keys) {
      if (known.size === MOST_KNOWN) known.clear();
      known.set(key, (keys = new WireKeys(this.namesOf(key, kind))));
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

function keyMap(): Map<string, WireKeys> {
  return new Map();
}
