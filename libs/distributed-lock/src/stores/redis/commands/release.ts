import type { ReleaseReply, ReleaseRequest } from '../../../port/lock-store.js';
import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import { CertainReleases, type ExecutedRelease } from '../../common/certain-releases.js';
import type { OwnerState, OwnerStates } from '../../common/owner-states.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import type { Arguments } from '../scripts/evalsha.js';
import { ScriptCommand } from '../scripts/script-command.js';
import { claimFields, type ScriptContext } from '../scripts/script-context.js';
import { releaseScript, type ReplyOf } from '../scripts/scripts.js';

type Reply = ReplyOf<typeof releaseScript>;

class ReleaseCommand extends ScriptCommand<Reply, ExecutedRelease> {
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

  protected onReply([held, executedAt]: Reply): ExecutedRelease {
    return { wasHolder: held === 1, executedAt };
  }
}

export class Releases {
  private readonly certain: CertainReleases;

  constructor(
    private readonly connection: RedisConnection,
    private readonly context: ScriptContext,
    owners: OwnerStates,
    private readonly sources: { readonly clock: Clock; readonly chance: Chance },
  ) {
    this.certain = new CertainReleases(owners, sources.clock, sources.chance, connection.commandTimeoutMs);
  }

  /** @throws LockStoreError when the server refuses, or does not answer, until the lease and the ticket have run out */
  run(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.certain.run(request, (state) => {
      const args = argsOf(request, this.context, state, this.sources.clock);
      return () => this.connection.run(new ReleaseCommand(request, this.context, args));
    });
  }

  close(): void {
    this.certain.close();
  }
}

/** Every copy names the same tokens. A copy with another last token would let the server give one out twice. */
function argsOf(
  { owner, claim, used, holdUntil }: ReleaseRequest,
  { minToken, publish, serverFields }: ScriptContext,
  state: OwnerState,
  clock: Clock,
): () => Arguments {
  const tokens = used ? `,"used":"${used.token}","reserved":"${used.lastToken}"` : '';
  const mayBePlain = claim.kind === 'lock' && publish === 'PUBLISH' && !used;
  return () => {
    const holdMs = holdUntil === undefined ? 0 : Math.max(0, Math.ceil(holdUntil - clock.now()));
    const isPlain = mayBePlain && holdMs === 0 && !state.hasUnanswered;
    const hold = holdMs > 0 ? `,"hold":${holdMs}` : '';
    const options = `{${claimFields(claim)}${tokens}${hold},"min_token":${minToken},${serverFields}}`;
    return [owner, `${isPlain ? 1 : 0}${options}`];
  };
}
