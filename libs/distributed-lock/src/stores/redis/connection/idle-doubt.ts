import type { RedisCommand } from './redis.command.js';

/** A connection that has been silent for this long may have been forgotten by the network. */
export const IDLE_MS = 500;

/**
 * Whether a connection that has been idle still exists. Load balancers and firewalls forget such a connection, and tell
 * neither end.
 *
 * A repeatable command that is written on an idle connection has half of its time for the first reply. The other half is
 * left for a second copy on a new connection.
 */
export class IdleDoubt {
  repliedAt = 0;
  private isOpen = false;
  private areNodesReplaced = false;

  isIdle(now: number): boolean {
    return now - this.repliedAt > IDLE_MS;
  }

  /** The oldest command in flight was written on an idle connection. */
  begin(): void {
    this.isOpen = true;
    this.areNodesReplaced = false;
  }

  end(): void {
    this.isOpen = false;
  }

  onReply(now: number): void {
    this.repliedAt = now;
    this.isOpen = false;
  }

  /** @returns whether the nodes of a cluster are to be disconnected, which is done once for each doubt */
  replaceNodes(): boolean {
    const isDue = this.isOpen && !this.areNodesReplaced;
    if (isDue) this.areNodesReplaced = true;
    return isDue;
  }

  mayRepeat({ isRepeatable, isSecondCopy }: RedisCommand): boolean {
    return this.isOpen && isRepeatable && !isSecondCopy;
  }

  /** @param ms how long a command may take */
  timeoutOf(command: RedisCommand, ms: number): number {
    return this.mayRepeat(command) && !this.areNodesReplaced ? ms / 2 : ms;
  }
}
