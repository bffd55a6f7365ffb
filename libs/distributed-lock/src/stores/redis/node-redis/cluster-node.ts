import { Openings } from '../../common/connection/openings.js';
import { ReplyDeadline } from '../../common/connection/reply-deadline.js';
import { isAnswer } from '../connection/redis.errors.js';
import type { Arguments, ClientSettings, RedisNode } from '../redis.client.js';
import type { Place } from './given-options.js';
import { OneServer } from './master.js';
import { NodeRedisSingle, offline } from './node-redis.single.js';
import type { NodeRedisPattern } from './node-redis.target.js';

/** A task on one node. It must write its commands before it awaits anything. */
export type NodeTask<T> = (client: NodeRedisSingle) => Promise<T>;

/**
 * One server of a cluster, on a connection of its own that is replaced when it has brought no reply for `commandTimeoutMs`.
 * A command waits for a connection as long, because no other server can execute it.
 */
export class ClusterNode implements RedisNode {
  readonly client: NodeRedisSingle;
  private readonly inFlight = new Set<{ readonly since: number }>();
  private readonly deadline: ReplyDeadline<{ readonly since: number }>;
  private readonly openings: Openings<void>;

  /** @param place the address of the node, as the cluster tells it */
  constructor(
    readonly place: Place,
    pattern: NodeRedisPattern,
    private readonly settings: ClientSettings,
  ) {
    this.openings = new Openings(settings.clock);
    this.client = new NodeRedisSingle(new OneServer(pattern), settings);
    this.deadline = new ReplyDeadline({
      ...settings,
      unanswered: () => this.inFlight,
      onDue: (isDue) => {
        if ([...this.inFlight].some(isDue)) this.drop();
      },
    });
    this.client.on('ready', () => this.openings.onOpen());
    this.client.on('close', () => this.openings.refuse(offline));
  }

  get address(): string {
    return this.client.address;
  }

  get isReady(): boolean {
    return this.client.isReady;
  }

  get isBusy(): boolean {
    return this.inFlight.size + this.openings.size > 0;
  }

  async run<T>(task: NodeTask<T>): Promise<T> {
    const { clock, commandTimeoutMs: withinMs } = this.settings;
    if (!this.isReady) await this.openings.wait({ key: undefined, withinMs, lateError: offline });
    const request = { since: clock.now() };
    this.inFlight.add(request);
    this.deadline.start();
    try {
      const reply = await task(this.client);
      this.deadline.onReply();
      return reply;
    } catch (error) {
      if (isAnswer(error)) this.deadline.onReply();
      throw error;
    } finally {
      this.inFlight.delete(request);
    }
  }

  call(command: string, args: Arguments): Promise<unknown> {
    return this.run((client) => client.call(command, args));
  }

  askBeside(onAnswer: () => void): () => void {
    return this.client.askBeside(onAnswer);
  }

  drop(): void {
    this.client.drop();
  }

  async close(withinMs: number): Promise<void> {
    this.openings.refuse(offline);
    await this.client.close(withinMs);
    this.deadline.stop();
  }
}
