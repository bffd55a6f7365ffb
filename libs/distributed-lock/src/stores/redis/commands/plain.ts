import type { AccessRights } from '../scripts/access-rights.js';
import type { RedisClient } from '../redis.client.js';
import { RedisCommand } from '../connection/redis.command.js';
import { asStoreError, isDenied } from '../connection/redis.errors.js';

/** A command without a script, about no single lock. May be executed twice. */
export class PlainCommand<Reply> extends RedisCommand<Reply> {
  readonly key = undefined;
  readonly priority = 'acquire';
  override readonly isRepeatable = true;

  constructor(
    private readonly rights: AccessRights,
    private readonly write: (client: RedisClient) => Promise<Reply>,
  ) {
    super();
  }

  send(client: RedisClient): Promise<Reply> {
    return this.write(client);
  }

  read(value: unknown): Reply {
    return value as Reply;
  }

  override recover(_client: RedisClient, error: unknown): Promise<never> {
    const refusal = isDenied(error) ? this.rights.refusal(error, undefined) : asStoreError(error, undefined);
    return Promise.reject(refusal);
  }
}
