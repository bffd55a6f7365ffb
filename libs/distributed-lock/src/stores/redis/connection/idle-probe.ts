import type { RedisNode } from '../redis.client.js';
import type { RedisCommand } from './redis.command.js';

/** A connection that has been silent for this long may have been forgotten by the network. */
export const IDLE_MS = 500;

/**
 * Finds out whether a connection that has been idle still exists. Load balancers and firewalls forget such a connection, and tell
 * neither end.
 *
 * When a repeatable command that is written on an idle connection has no reply after half of its time, the server is asked
 * on a second connection. If it answers there, and is still silent on the first one, the first one is replaced, and the
 * command is written once more. A server that is merely slow has all of the time to reply.
 */
export class IdleProbe {
  repliedAt = 0;
  private isOpen = false;
  /** Functions that close the second connections; absent while no server is asked. */
  private asking: (() => void)[] | undefined;

  isIdle(now: number): boolean {
    return now - this.repliedAt > IDLE_MS;
  }

  /** The oldest command in flight was written on an idle connection. */
  begin(): void {
    this.end();
    this.isOpen = true;
  }

  end(): void {
    this.isOpen = false;
    this.asking?.forEach((close) => close());
    this.asking = undefined;
  }

  onReply(now: number): void {
    this.repliedAt = now;
    if (this.isOpen) this.end();
  }

  /** @param onAnswer gets each node that answers on a second connection before any reply has come */
  ask(nodes: readonly RedisNode[], onAnswer: (node: RedisNode) => void): void {
    this.asking ??= nodes.map((node) => node.askBeside(() => onAnswer(node)));
  }

  mayRepeat({ isRepeatable, isSecondCopy }: RedisCommand): boolean {
    return this.isOpen && isRepeatable && !isSecondCopy;
  }

  /** @param ms how long a command may take */
  timeoutOf(command: RedisCommand, ms: number): number {
    return this.mayRepeat(command) && !this.asking ? ms / 2 : ms;
  }
}
