import type { Claim } from '../../../port/claim.js';
import type { Clock } from '../../../time/clock.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import type { Sent } from '../../common/server-clock.js';
import { checkReserved, checkSlot, redisKeys, type RedisKeys } from '../redis.keys.js';
import type { AccessRights } from './access-rights.js';
import { WireKeys } from './evalsha.js';

/** The most keys of one kind of claim whose names are kept, some 800 bytes for each. */
const MOST_KNOWN = 2048;

interface Naming {
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly sharedTokens: boolean;
}

/** The state that the scripts of one client share: the names of keys, the largest token, the server's time. */
export class ScriptContext {
  /** The largest token seen: no grant may carry a smaller one, whatever the server has forgotten. */
  minToken = 0;
  /** The names of locks that were used lately, by kind of claim and key. */
  private readonly known = { lock: keyMap(), exclusive: keyMap(), shared: keyMap(), permits: keyMap() };

  constructor(
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    readonly rights: AccessRights,
    private readonly naming: Naming,
  ) {}

  get isCluster(): boolean {
    return this.naming.isCluster;
  }

  get sharesTokens(): boolean {
    return this.naming.sharedTokens;
  }

  onToken(token: number): void {
    this.minToken = Math.max(this.minToken, token);
  }

  get roundTripMs(): number {
    return this.connection.serverClock.roundTripMs;
  }

  get publish(): 'PUBLISH' | 'SPUBLISH' {
    return this.connection.publish;
  }

  get nodeCloses(): number {
    return this.connection.nodeCloses;
  }

  /** In server time: the server refuses a request as expired once the deadline of its command is over. */
  notAfter(): number {
    const { serverClock, commandTimeoutMs } = this.connection;
    return serverClock.earliest(this.clock.now()) + Math.ceil(commandTimeoutMs);
  }

  /** @param serverMs what the reply told, or 0 */
  onServerTime(serverMs: number, sent: Sent): void {
    if (serverMs > 0) this.connection.serverClock.learn(serverMs, sent, this.clock.now());
  }

  /** @throws LockKeyError for a name that belongs to another lock, or that a cluster cannot take */
  lockName(key: string): string {
    const name = this.naming.keyPrefix + key;
    checkReserved(name);
    if (this.naming.isCluster) checkSlot(name);
    return name;
  }

  /** Throws as `lockName`. */
  namesOf(key: string, kind: Claim['kind']): RedisKeys {
    return redisKeys(this.lockName(key), kind, this.naming.sharedTokens);
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

const NO_PERMITS = { weight: undefined, permits: undefined };

/** Name both fields one by one in the options, because JSON.stringify takes ten times as long for a spread. */
export function permitsOf(claim: Claim): {
  readonly weight?: number | undefined;
  readonly permits?: number | undefined;
} {
  return claim.kind === 'permits' ? claim : NO_PERMITS;
}

function keyMap(): Map<string, WireKeys> {
  return new Map();
}
