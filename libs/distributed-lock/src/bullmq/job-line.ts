import type { MaybePromise } from '../common/promises.js';

/** The parts of a BullMQ worker that `@LockedJob` uses. In version 5 the worker has the client, later its backend has it. */
export interface JobWorker {
  toKey(type: string): string;
  readonly client?: MaybePromise<ScriptClient>;
  readonly backend?: { readonly client?: MaybePromise<ScriptClient> };
}

/** A client of Redis as BullMQ wraps it, or a raw one of ioredis. */
interface ScriptClient {
  defineCommand(name: string, definition: { readonly numberOfKeys: number; readonly lua: string }): unknown;
  runCommand?(name: string, args: unknown[]): Promise<unknown>;
}

/** The answer to a job that wants to begin: it may, it must come back later, or it should ask again in a moment. */
type Turn = 'go' | 'later' | 'ask again';

/**
 * KEYS: the line of a lock key, and the queue's keys `active`, `completed` and `failed`. ARGV: prefix of the queue's keys, job id.
 *
 * Returns the job at the head of the line. Jobs that BullMQ no longer has, or has ended, are removed on the way.
 */
const HEAD = `
local function headOf()
  while true do
    local head = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
    if not head then return nil end
    local isGone = redis.call('EXISTS', ARGV[1] .. head) == 0
    if not isGone and not redis.call('ZSCORE', KEYS[3], head) and not redis.call('ZSCORE', KEYS[4], head) then return head end
    redis.call('ZREM', KEYS[1], head)
  end
end
`;

/**
 * ARGV 3: the place of the job.
 *
 * 1. The job joins the line, unless it stands there. Its hash gets a mark, so that others see that it has joined.
 * 2. If it is the head, it may begin, unless an older job of the queue is active and has not joined yet: a worker has fetched that one a
 *    moment before this one, and it may have the same key.
 */
const JOIN = `${HEAD}
local id = ARGV[2]
redis.call('ZADD', KEYS[1], 'NX', ARGV[3], id)
redis.call('PEXPIRE', KEYS[1], ${7 * 24 * 3600 * 1000})
redis.call('HSET', ARGV[1] .. id, 'nestLock', '1')
if headOf() ~= id then return 'later' end
for _, other in ipairs(tonumber(id) and redis.call('LRANGE', KEYS[2], 0, 999) or {}) do
  local isOlder = tonumber(other) and tonumber(other) < tonumber(id)
  if isOlder and redis.call('HEXISTS', ARGV[1] .. other, 'nestLock') == 0 then return 'ask again' end
end
return 'go'`;

/** Removes the job, and returns the next one. */
const LEAVE = `${HEAD}
redis.call('ZREM', KEYS[1], ARGV[2])
return headOf()`;

const SCRIPTS = { nestLockJoin: JOIN, nestLockLeave: LEAVE, nestLockHead: `${HEAD}return headOf()` } as const;

/**
 * The line of the jobs of one key, in the Redis and under the prefix of their queue. Its head is the job that works, or the next one.
 *
 * The line is a sorted set. BullMQ numbers jobs as they are added, and the set sorts by that number, in whichever order workers
 * fetch the jobs. Jobs with ids of their own are sorted by the time at which they were added.
 */
export class JobLine {
  private readonly keys: readonly string[];

  constructor(
    private readonly worker: JobWorker,
    key: string,
  ) {
    this.keys = [`nest-lock:${key}`, 'active', 'completed', 'failed'].map((type) => worker.toKey(type));
  }

  async join({ id, timestamp }: { readonly id: string; readonly timestamp: number }): Promise<Turn> {
    return (await this.run('nestLockJoin', id, /^\d+$/.test(id) ? id : timestamp)) as Turn;
  }

  async leave(id: string): Promise<string | undefined> {
    return ((await this.run('nestLockLeave', id)) as string | null) ?? undefined;
  }

  async head(): Promise<string | undefined> {
    return ((await this.run('nestLockHead')) as string | null) ?? undefined;
  }

  private async run(name: keyof typeof SCRIPTS, ...args: readonly (string | number)[]): Promise<unknown> {
    const { worker, keys } = this;
    const client = await (worker.client ?? worker.backend?.client);
    if (!client)
      throw new TypeError('@LockedJob works with BullMQ on Redis, and this worker has another backend.');
    if (!defined.has(client)) {
      for (const [each, lua] of Object.entries(SCRIPTS))
        client.defineCommand(each, { numberOfKeys: keys.length, lua });
      defined.add(client);
    }
    const words = [...keys, worker.toKey(''), ...args];
    if (client.runCommand) return client.runCommand(name, words);
    const command = (client as unknown as Readonly<Record<string, (...words: unknown[]) => unknown>>)[name];
    return command && Reflect.apply(command, client, words);
  }
}

/** Clients on which `SCRIPTS` are defined. */
const defined = new WeakSet<object>();
