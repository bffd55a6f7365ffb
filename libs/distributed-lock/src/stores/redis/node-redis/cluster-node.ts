import { giveUpAfter } from '../../../time/turns.js';
import { ReplyDeadline } from '../../common/connection/reply-deadline.js';
import { isAnswer } from '../connection/redis.errors.js';
import type { Arguments, ClientSettings, RedisNode } from '../redis.client.js';
import type { Place } from './given-options.js';
import { OneServer } from './master.js';
import { NodeRedisSingle, offline } from './node-redis.single.js';
import type { NodeRedisPattern } from './node-redis.target.js';

/** Writes its commands before it awaits anything. */
export type NodeTask<T> = (client: NodeRedisSingle) => Promise<T>;

/**
 * One server of a cluster, on a connection of its own that is replaced when it has brought no reply for `commandTimeoutMs`.
 * A command waits for a connection as long, because no other server can execute it.
 */
export class ClusterNode implements RedisNode {
  readonly client: NodeRedisSingle;
  private readonly inFlight = new Set<{ readonly since: number }>();
  private readonly deadline: ReplyDeadline<{ readonly since: number }>;
  /** End the waits for a connection. */
  private readonly waiting = new Set<(error?: Error) => void>();

  /** @param place where it is, in the words of the cluster */
  constructor(
    readonly place: Place,
    pattern: NodeRedisPattern,
    private readonly settings: ClientSettings,
  ) {
    this.client = new NodeRedisSingle(new OneServer(pattern), settings);
    this.deadline = new ReplyDeadline({
      ...settings,
      unanswered: () => this.inFlight,
      onDue: (isDue) => {
        if ([...this.inFlight].some(isDue)) this.drop();
      },
    });
    this.client.on('ready', () => this.endWaits());
    this.client.on('close', () => this.endWaits(offline()));
  }

  get address(): string {
    return this.client.address;
  }

  get isReady(): boolean {
    return this.client.isReady;
  }

  get isBusy(): boolean {
    return this.inFlight.size + this.waiting.size > 0;
  }

  async run<T>(task: NodeTask<T>): Promise<T> {
    if (!this.isReady) await this.untilReady();
    const request = { since: this.settings.clock.now() };
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
    this.endWaits(offline());
    await this.client.close(withinMs);
    this.deadline.stop();
  }

  private untilReady(): Promise<void> {
    const { clock, commandTimeoutMs } = this.settings;
    return new Promise((resolve, reject) => {
      const end = (error?: Error): void => {
        cancel();
        this.waiting.delete(end);
        if (error) reject(error);
        else resolve();
      };
      const cancel = giveUpAfter(clock, commandTimeoutMs, () => end(offline()));
      this.waiting.add(end);
    });
  }

  private endWaits(error?: Error): void {
    for (const end of this.waiting) end(error);
  }
}
