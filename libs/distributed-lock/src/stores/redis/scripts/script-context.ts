import type { Claim } from '../../../port/claim.js';
import type { Clock } from '../../../time/clock.js';
import type { RedisConnection } from '../connection/redis.connection.js';

/** What goes with the commands of one client. */
export class ScriptContext {
  readonly cluster: 0 | 1;
  private largestToken = 0;

  constructor(
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    readonly isCluster: boolean,
  ) {
    this.cluster = isCluster ? 1 : 0;
  }

  /** The largest token seen: no grant may carry a smaller one, whatever the server has forgotten. */
  get minToken(): number {
    return this.largestToken;
  }

  onToken(token: number): void {
    this.largestToken = Math.max(this.largestToken, token);
  }

  get roundTripMs(): number {
    return this.connection.serverClock.roundTripMs;
  }

  get publish(): 'PUBLISH' | 'SPUBLISH' {
    return this.connection.publish;
  }

  /** In server time: nothing is executed once the deadline of its command is over. */
  notAfter(): number {
    const { serverClock, commandTimeoutMs } = this.connection;
    return serverClock.earliest(this.clock.now()) + Math.ceil(commandTimeoutMs);
  }
}

export function weightOf(claim: Claim): number {
  return claim.kind === 'permits' ? claim.weight : 0;
}

export function permitsOf(claim: Claim): number {
  return claim.kind === 'permits' ? claim.permits : 0;
}
