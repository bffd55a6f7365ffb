import { WaitingRequests } from '../../common/connection/waiting-requests.js';
import type { Priority, RedisCommand } from './redis.command.js';

const RANK: Readonly<Record<Priority, number>> = { release: 0, renew: 1, acquire: 2 };

/** Commands that wait for a connection, or for fewer commands in flight: releases first, then renewals, then acquires. */
export class WaitingCommands extends WaitingRequests<RedisCommand> {
  override push(command: RedisCommand): void {
    const rank = RANK[command.priority];
    const before = this.requests.findLastIndex(({ priority }) => RANK[priority] <= rank);
    this.requests.splice(before + 1, 0, command);
  }

  shift(): RedisCommand | undefined {
    return this.requests.shift();
  }
}
