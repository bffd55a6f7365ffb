import type { ReleaseReply, ReleaseRequest } from '../../../port/lock-store.js';
import { SILENT_WAITER_MS } from '../../../port/recheck-interval.js';
import type { Clock } from '../../../time/clock.js';
import { Delays } from '../../../time/delays.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import type { Arguments } from '../scripts/evalsha.js';
import { ScriptCommand } from '../scripts/script-command.js';
import { permitsOf, type ScriptContext } from '../scripts/script-context.js';
import { releaseScript, type ReplyOf } from '../scripts/scripts.js';
import type { OwnerState, OwnerStates } from './owner-states.js';

export const RELEASE_RETRY_MS = { least: 100, spread: 400 };

type Reply = ReplyOf<typeof releaseScript>;

class ReleaseCommand extends ScriptCommand<Reply, Reply> {
  readonly priority = 'release';
  override readonly flush: ReleaseRequest['flush'];

  constructor(
    { key, claim, flush }: ReleaseRequest,
    context: ScriptContext,
    private readonly argsNow: () => Arguments,
  ) {
    super(releaseScript, context, { key, kind: claim.kind });
    this.flush = flush;
  }

  protected args(): Arguments {
    return this.argsNow();
  }

  protected onReply(reply: Reply): Reply {
    return reply;
  }
}

/**
 * Releases that are executed for certain.
 *
 * An acquire that was never answered may lie in a socket and be executed after the release that follows it. The server
 * refuses an acquire after its not-after, so its release is repeated until one was executed later than that
 * (docs/decisions/0003, P1).
 */
export class Releases {
  private readonly pauses: Delays;
  private isClosed = false;

  constructor(
    private readonly connection: RedisConnection,
    private readonly context: ScriptContext,
    private readonly owners: OwnerStates,
    private readonly clock: Clock,
  ) {
    this.pauses = new Delays(clock);
  }

  /** @throws LockStoreError when the server refuses, or does not answer, until the lease and the ticket have run out */
  async run(request: ReleaseRequest): Promise<ReleaseReply> {
    const longestMs = Math.max(request.leaseMs, SILENT_WAITER_MS);
    const giveUpAt = this.clock.now() + longestMs + this.connection.commandTimeoutMs;
    const state = this.owners.begin(request.owner);
    state.isReleasing = true;
    let wasHolder = false;
    let isUnsure = false;
    try {
      const args = argsOf(request, this.context, state, this.clock);
      for (;;) {
        try {
          const command = new ReleaseCommand(request, this.context, args);
          const [held, executedAt] = await this.connection.run(command);
          wasHolder ||= held === 1;
          // Our own clock decides at the end: the server's may have been set back meanwhile, by any time.
          const isOver = executedAt > state.lateUntil || this.clock.now() > giveUpAt;
          if (isOver) {
            if (wasHolder) return 'released';
            return isUnsure ? 'unknown' : 'not held';
          }
        } catch (error) {
          // A refused release is repeated, too: a right that is missing for a moment must not leave the lock behind.
          if (this.isClosed || this.clock.now() > giveUpAt) throw error;
          isUnsure = true;
        }
        await this.pauses.wait(RELEASE_RETRY_MS.least + Math.random() * RELEASE_RETRY_MS.spread);
      }
    } finally {
      this.owners.end(request.owner);
    }
  }

  close(): void {
    this.isClosed = true;
    this.pauses.endAll();
  }
}

/** Every copy names the same tokens. A copy with another last token would let the server give one out twice. */
function argsOf(
  { owner, claim, used, keepUntil = 0 }: ReleaseRequest,
  { minToken, isCluster: cluster, publish }: ScriptContext,
  state: OwnerState,
  clock: Clock,
): () => Arguments {
  const { kind } = claim;
  const { weight, permits } = permitsOf(claim);
  const lastUsed = used && String(used.token);
  const reserved = used && String(used.lastToken);
  const mayBePlain = kind === 'lock' && publish === 'PUBLISH' && !used;
  return () => {
    const keep = keepUntil > clock.now() ? Math.ceil(keepUntil - clock.now()) : undefined;
    const isPlain = mayBePlain && keep === undefined && !state.hasUnanswered;
    const options = {
      kind,
      weight,
      permits,
      used: lastUsed,
      reserved,
      keep,
      min_token: minToken,
      cluster,
      publish,
    };
    return [owner, `${isPlain ? 1 : 0}${JSON.stringify(options)}`];
  };
}
