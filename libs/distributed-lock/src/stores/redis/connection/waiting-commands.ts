import type { Priority, RedisCommand } from './redis.command.js';

const RANK: Readonly<Record<Priority, number>> = { release: 0, renew: 1, acquire: 2 };

/** Commands that wait for a connection, or for fewer commands in flight: releases first, then renewals, then acquires. */
export class WaitingCommands {
  private commands: RedisCommand[] = [];

  get size(): number {
    return this.commands.length;
  }

  push(command: RedisCommand): void {
    const rank = RANK[command.priority];
    const before = this.commands.findLastIndex(({ priority }) => RANK[priority] <= rank);
    this.commands.splice(before + 1, 0, command);
  }

  shift(): RedisCommand | undefined {
    return this.commands.shift();
  }

  /** Removes and returns those that are due. */
  takeDue(isDue: (command: RedisCommand) => boolean): readonly RedisCommand[] {
    const due = this.commands.filter(isDue);
    this.commands = this.commands.filter((command) => !isDue(command));
    return due;
  }

  [Symbol.iterator](): Iterator<RedisCommand> {
    return this.commands.values();
  }
}
