import { Openings } from '../../common/connection/openings.js';
import { ReplyDeadline } from '../../common/connection/reply-deadline.js';
import { isAnswer } from '../connection/redis.errors.js';
import type { ClientSettings } from '../redis.client.js';
import type { Place } from './given-options.js';
import { OneServer, offline } from './node-redis.single.js';
import type { NodeRedis, NodeRedisPattern } from './node-redis.target.js';

/**
 * One server of a cluster, on a connection of its own that is replaced when it has brought no reply for `commandTimeoutMs`.
 * A command waits for a connection as long, because no other server can execute it.
 */
export class ClusterNode extends OneServer {
  private readonly inFlight = new Set<{ readonly since: number }>();
  private readonly deadline: ReplyDeadline<{ readonly since: number }>;
  private readonly openings: Openings<void>;

  /** @param place the address of the node, as the cluster tells it */
  constructor(
    readonly place: Place,
    pattern: NodeRedisPattern,
    settings: ClientSettings,
  ) {
    super(pattern, settings);
    this.openings = new Openings(settings.clock);
    this.deadline = new ReplyDeadline({
      ...settings,
      unanswered: () => this.inFlight,
      onDue: (isDue) => {
        if ([...this.inFlight].some(isDue)) this.drop();
      },
    });
    this.on('ready', () => this.openings.onOpen());
    this.on('close', () => this.openings.refuse(offline));
  }

  get isBusy(): boolean {
    return this.inFlight.size + this.openings.size > 0;
  }

  override async close(withinMs: number): Promise<void> {
    this.openings.refuse(offline);
    await super.close(withinMs);
    this.deadline.stop();
  }

  protected override async with(task: (client: NodeRedis) => Promise<unknown>): Promise<unknown> {
    const { clock, commandTimeoutMs: withinMs } = this.settings;
    if (!this.isReady) await this.openings.wait({ key: undefined, withinMs, lateError: offline });
    const request = { since: clock.now() };
    this.inFlight.add(request);
    this.deadline.start();
    try {
      const reply = await super.with(task);
      this.deadline.onReply();
      return reply;
    } catch (error) {
      if (isAnswer(error)) this.deadline.onReply();
      throw error;
    } finally {
      this.inFlight.delete(request);
    }
  }
}
