import type { RedisClient, RedisNode } from './client.js';
import { RedisCommand } from './command.js';

/** A connection that has been silent for this long may have been forgotten by the network. */
export const IDLE_MS = 500;

/**
 * Finds out whether a connection that has been idle still exists. Load balancers and firewalls forget such a connection, and notify
 * neither end.
 *
 * If a repeatable command that was written on an idle connection has no reply after half of its time, the client asks the server on
 * a second connection. If the server answers there while the first connection is still silent, the first one is replaced, and the
 * command is sent once more. A server that is merely slow has the whole time to reply.
 */
export class IdleProbe {
  repliedAt = 0;
  private isOpen = false;
  /** Functions that close the second connections; absent while no server is asked. */
  private asking: (() => void)[] | undefined;

  isIdle(now: number): boolean {
    return now - this.repliedAt > IDLE_MS;
  }

  /** Called when a command is written on an idle connection on which no other command is in flight. */
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

  /**
   * Opens a second connection to each node, unless that has happened already. @param onAnswer gets each node that answers on its second
   * connection while the first one is still silent
   */
  ask(nodes: readonly RedisNode[], onAnswer: (node: RedisNode) => void): void {
    this.asking ??= nodes.map((node) => node.askBeside(() => onAnswer(node)));
  }

  mayRepeat({ isRepeatable, isSecondCopy }: RedisCommand): boolean {
    return this.isOpen && isRepeatable && !isSecondCopy;
  }

  /** How long the command may go without a reply: half of `ms` while it may be repeated and no server has been asked, otherwise `ms`. */
  timeoutOf(command: RedisCommand, ms: number): number {
    return this.mayRepeat(command) && !this.asking ? ms / 2 : ms;
  }
}

/** Pings the server, or each connected master of a cluster. The client of a cluster ends the connection to a node that does not reply. */
export class Ping extends RedisCommand<undefined> {
  readonly key = undefined;
  readonly priority = 'renew';

  send(client: RedisClient): Promise<unknown> {
    if (!client.isCluster) return client.call('ping', []);
    const open = client.masters().filter(({ isReady }) => isReady);
    return Promise.allSettled(open.map((node) => node.call('ping', [])));
  }

  read(): undefined {
    return undefined;
  }
}
