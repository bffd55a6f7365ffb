import type { ReleaseReply, ReleaseRequest } from '../../../port/lock-store.js';
import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import { CertainReleases } from '../../common/certain-releases.js';
import type { OwnerState, OwnerStates } from '../../common/owner-states.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import type { Arguments } from '../scripts/evalsha.js';
import { ScriptCommand } from '../scripts/script-command.js';
import { permitsOf, type ScriptContext } from '../scripts/script-context.js';
import { releaseScript, type ReplyOf } from '../scripts/scripts.js';

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
      return async () => {
        const command = new ReleaseCommand(request, this.context, args);
        const [held, executedAt] = await this.connection.run(command);
        return { wasHolder: held === 1, executedAt };
      };
    });
  }

  close(): void {
    this.certain.close();
  }
}
/** Every copy names the same tokens. A copy with another last token would let the server give one out twice. */
function argsOf(
  { owner, claim, used, holdUntil = 0 }: ReleaseRequest,
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
    const hold = holdUntil > clock.now() ? Math.ceil(holdUntil - clock.now()) : undefined;
    const isPlain = mayBePlain && hold === undefined && !state.hasUnanswered;
    const options = {
      kind,
      weight,
      permits,
      used: lastUsed,
      reserved,
      hold,
      min_token: minToken,
      cluster,
      publish,
    };
    return [owner, `${isPlain ? 1 : 0}${JSON.stringify(options)}`];
  };
}
