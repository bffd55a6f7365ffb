import { mutantsOf, type Mutant } from './mutant.js';

/** The scripts, and the commands that send them. */
export const REDIS_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('redis', 'redis/notifications.js', [
    [
      'a release of a foreign client wakes nobody',
      'for (const owner of this.ownersBehind(channel))',
      'for (const owner of [])',
    ],
  ]),
  ...mutantsOf('redis', 'redis/locks.js', [
    [
      'a client is named by its application, as the one before it',
      'this.clientId = newClientId(chance);',
      "this.clientId = newClientId(context.client ? { uuid: () => `00000000-0000-4000-8000-${Buffer.from(context.client.application).toString('hex').slice(-12)}` } : chance);",
    ],
  ]),
  ...mutantsOf('redis', 'lock/core/lock-runtime.js', [
    [
      'holders do not renew after a gap in the notifications',
      "if (notification.kind === 'gap')",
      'if (false)',
    ],
  ]),
  ...mutantsOf('redis', 'redis/scripts/lua.generated.js', [
    ['a detached lock is attached twice', 'leave(from, kind, weight)', ''],
    [
      'a detached lock that has ended is attached',
      "if not is_detached() then return { 3, now, '', 0 } end",
      '',
    ],
    [
      'a release wakes no foreign client',
      "receivers = was_holder == 1 and redis.call(publish, KEYS[5], '0') or 0",
      'receivers = 0',
    ],
    [
      'permits of a key that is in use as a lock are waited for',
      "local length = redis.call('STRLEN', KEYS[1])",
      'local length = 0',
    ],
    [
      'foreign clients have no turn',
      'if foreign_clients > 0 and foreign_clients_waited() >= FOREIGN_WAIT_MS then',
      'if false then',
    ],
  ]),
  ...mutantsOf('redis', 'lock/core/owner.js', [
    [
      'a grant that was taken by force before its reply came admits a caller',
      "this.isGrantInDoubt ||= this.state.kind === 'waiting';",
      '',
    ],
  ]),
  ...mutantsOf('redis', 'redis/scripts/lua.generated.js', [
    [
      'a release by force that names one owner takes the permits of all',
      "local take = kind == 'permits' and take_permits or take_lock",
      "local take = kind == 'permits' and function() return math.min(1, redis.call('DEL', KEYS[1], permits_key, holders_key)) end or take_lock",
    ],
  ]),
  ...mutantsOf('redis', 'redis/connection.js', [
    [
      'a connection that is answered READONLY is kept',
      "if (textOf(error).startsWith('READONLY'))",
      'if (false)',
    ],
  ]),
  ...mutantsOf('redis', 'redis/scripts/lua.generated.js', [
    [
      'a lock whose tokens are evicted is lost',
      "if not tokens then redis.call('SET', token, first .. ' ' .. last, 'PX', keep)",
      'if not tokens then return -1',
    ],
  ]),
  ...mutantsOf('redis', 'redis/scripts/script-command.js', [
    [
      'a script that Redis has forgotten is not sent in full',
      "error.message.startsWith('NOSCRIPT')",
      'false',
    ],
  ]),
  ...mutantsOf('redis', 'redis/scripts/lua.generated.js', [
    ['acquires are executed however late they are', 'if now > tonumber(ARGV[3]) then', 'if false then'],
    ['tokens are given back under a later grant', 'if last ~= options.reserved then return end', ''],
    ['maxWaiting is ignored', 'if is_newcomer and others >= max_waiting then', 'if false then'],
    ['one owner more than maxWaiting waits', 'others >= max_waiting then', 'others > max_waiting then'],
    [
      'an owner that is refused by maxWaiting stays in the queue',
      'if is_newcomer and others >= max_waiting then\\nleave_queue(owner)',
      'if is_newcomer and others >= max_waiting then\\njoin_queue()',
    ],
    ['old renewals are executed', 'if now > tonumber(ARGV[2]) then', 'if false then'],
    [
      'a release deletes the lock of anybody',
      "was_holder = redis.pcall('HDEL', KEYS[1], owner)",
      "was_holder = redis.pcall('DEL', KEYS[1])",
    ],
    [
      'a renewal does not look who holds',
      'if not field or not is_under_this_grant() then return { 0, now } end',
      '',
    ],
    ['a renewal does not move the end of the lease', "redis.call('PEXPIRE', KEYS[1], lease)", ''],
    ['a free lock is granted without an end', "redis.call('PEXPIRE', KEYS[1], ARGV[2])", ''],
    [
      'tokens are those that the clients have seen',
      'return math.max(last, seen, micros - 1) + 1',
      'return seen + 1',
    ],
    [
      'the queue is granted beside the holder',
      'elseif not (just_freed and is_alone(waiter.kind)) and not may_enter(waiter.kind, waiter.weight, waiter.permits) then',
      'elseif false then',
    ],
    [
      'an owner that asks itself gets the initial lease',
      'local own_lease = owner == asker and lease or waiter.initial_lease',
      'local own_lease = waiter.initial_lease',
    ],
    [
      'a free lock is granted past its queue',
      "if is_plain and is_short and redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then",
      "if is_plain and is_short and redis.call('EXISTS', KEYS[1]) == 0 then",
    ],
    [
      'waiters that are gone are granted',
      'is_entry and waiter.live_until >= now and waiter or nil',
      'is_entry and waiter or nil',
    ],
    [
      'a release grants nobody',
      "if is_free or was_holder == 1 and kind == 'permits' then hand_off(kind, just_freed)",
      "if is_free or was_holder == 1 and kind == 'permits' then local _ = 0",
    ],
    ['tokens forget the counter', 'or counted) >= first then', 'or counted) >= 9e15 then'],
    [
      'a plain waiter that is gone is granted',
      'if not waiter or waiter.live_until < now then return false end',
      'if not waiter then return false end',
    ],
    [
      'a plain waiter without a connection is granted',
      'if subscribed[2] > 0 or subscribed[4] == 0 then return false end',
      'if subscribed[2] > 0 then return false end',
    ],
    [
      'a plain waiter is granted tokens without regard to those that it has seen',
      'min_token = math.max(min_token, waiter.min_token)',
      '',
    ],
    [
      'a plain waiter that was granted stays in the queue',
      "redis.call('ZREM', KEYS[2], owner)\\nredis.call('HDEL', KEYS[3], owner, 'foreign_waiting_since')",
      '',
    ],
    [
      'a plain waiter is granted without an end',
      "redis.call('HSET', KEYS[1], owner, '1')\\nredis.call('PEXPIRE', KEYS[1], waiter.initial_lease)",
      "redis.call('HSET', KEYS[1], owner, '1')",
    ],
    [
      'a plain waiter is granted when another leaves the queue',
      "was_holder == 1 and existing_keys == 2 and redis.call('EXISTS', KEYS[1]) == 0 then",
      'existing_keys == 2 then',
    ],
    [
      'a plain waiter is granted past foreign clients',
      'if subscribed[2] > 0 or subscribed[4] == 0 then return false end',
      'if subscribed[4] == 0 then return false end',
      'No foreign client is in a history. The vectors of Redisson have it.',
    ],
    [
      'a renewal of plain locks does not move the end of their leases',
      "redis.call('PEXPIRE', lock, lease)\\n",
      '',
    ],
    [
      'a writer enters beside readers',
      "sweep_readers()\\nreturn redis.call('EXISTS', KEYS[1]) == 0",
      'sweep_readers()\\nreturn true',
    ],
    ['there is one permit more than there is', '+ weight <= permits', '+ weight <= permits + 1'],
    [
      'a renewal under another grant counts',
      "if tokens then return string.match(tokens, '^%d+') == ARGV[3] end",
      'if tokens then return true end',
    ],
    [
      'a renewal of plain locks under another grant counts',
      "elseif string.match(tokens, '^%d+') ~= first then return -1 end",
      'end',
    ],
    ['a renewal of plain locks does not look who holds', 'if not field then return -1 end', ''],
    ['one that was granted stays in the queue', 'leave_queue(owner)\\nlocal own_lease', 'local own_lease'],
    [
      'readers that are gone are never swept',
      'if left == 0 then on_dead(owner) end',
      '',
      'Without a live reader the whole lock is deleted, and the field of a dead one beside a live one keeps nobody out.',
    ],
    ['an owner that asks again is taken for another', 'if holds(owner, kind) then', 'if false then'],
    [
      'after a loss of data tokens follow no clock',
      'return math.max(last, seen, micros - 1) + 1',
      'return math.max(last, seen) + 1',
    ],
    ['the restart guard never waits', 'local left = open_from - now', 'local left = 0'],
    [
      'permits do not come back',
      "given_back = given_back + redis.call('ZREM', permits_key, permit(owner, i))",
      'given_back = given_back + 1',
    ],
    [
      'permits that are over are never swept',
      "redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now)",
      '0',
    ],
    [
      'a renewal brings a lost lock back',
      "if not field or not is_under_this_grant() then return { 0, now } end\\nredis.call('PEXPIRE', KEYS[1], lease)",
      "redis.call('HSET', KEYS[1], 'mode', 'write', owner .. ':write', 1)\\nredis.call('PEXPIRE', KEYS[1], lease)",
    ],
    [
      'one that leaves keeps its ticket',
      "function leave_queue(owner)\\nredis.call('ZREM', KEYS[2], owner)\\n",
      'function leave_queue(owner)\\n',
    ],
    [
      'a downgrade leaves the writer there',
      "redis.call('HDEL', KEYS[1], owner .. ':write')\\nredis.call('HDEL', KEYS[3], UNCONFIRMED)\\n",
      "redis.call('HDEL', KEYS[3], UNCONFIRMED)\\n",
    ],
    ['a minimum hold is not kept', 'if was_holder == 1 and hold then', 'if false then'],
    ['the holder is not told that others wait', 'if is_ours(holder) then notify', 'if false then notify'],
    [
      'a grant by notification is as long as the lease of the asker',
      'local own_lease = owner == asker and lease or waiter.initial_lease',
      'local own_lease = 60000',
    ],
    [
      'readers behind a writer that leaves are not granted',
      "elseif kind == 'permits' or not foreign_clients_are_next() then grant('', 0) end",
      'end',
    ],
    [
      'readers that asked later overtake a writer',
      'return count, true, asker_first, asker_last\\nelse',
      'index = index + 1\\nelse',
    ],
    ['a force release leaves the holder there', "was_held = redis.call('DEL', KEYS[1])", 'was_held = 1'],
    ['those who lose a lock by force are not told', "notify(loser, 'lost ' .. loser)", 'local _ = 0'],
    [
      'one that asks later has an earlier ticket',
      'if ticket == 0 then ticket = math.max(micros, tonumber(tail[2] or 0) + 1) end',
      'if ticket == 0 then ticket = 9e15 - micros end',
    ],
    [
      'one that does not wait overtakes the queue',
      'if not first and not blocked and may_enter(kind, weight, permits) then',
      'if not first and may_enter(kind, weight, permits) then',
    ],
    [
      'a queue without living waiters stays for ever',
      "redis.call('PEXPIRE', KEYS[2], KEEP_MS)\\nredis.call('PEXPIRE', KEYS[3], KEEP_MS)\\nreturn tonumber(ticket)",
      'return tonumber(ticket)',
    ],
    [
      'waiters without a connection are granted',
      'reached = not waiter.subscribed or cluster or receivers > 0 and is_subscribed(owner)',
      'reached = true',
    ],
    [
      'a downgrade lets no reader in',
      "grant('', 0)\\nredis.call(publish, KEYS[5], '1')",
      "redis.call(publish, KEYS[5], '1')",
    ],
    [
      "a reader's shorter lease ends those of the others",
      "if redis.call('PTTL', KEYS[1]) > tonumber(lease) then longest = longest_reader(function() end) end",
      '',
    ],
    [
      'a reader that leaves takes the lock of the others with it',
      "if mode and redis.call('HLEN', KEYS[1]) == 1 then",
      'if mode then',
    ],
    [
      'a caller that needs several permits takes one',
      "for i = 1, weight do redis.call('ZADD'",
      "for i = 1, 1 do redis.call('ZADD'",
    ],
  ]),
  ...mutantsOf('redis', 'redis/replicated-locks.js', [
    ['a grant counts that too few replicas have', 'if (count.replicas < atLeast)', 'if (false)'],
    [
      'the renewal that confirms a grant is not on the replicas',
      '!this.withoutReplicaCheck.has(renewal.owner)',
      'true',
    ],
    [
      'replicas are counted on a connection that knows nothing of the grant',
      'if (count.generation !== generation)',
      'if (false)',
    ],
  ]),
  ...mutantsOf('redis', 'redis/locks.js', [
    [
      'a grant by notification counts before the replicas have it',
      'client.writesAtOnce && minReplicaAcks === 0',
      'client.writesAtOnce',
    ],
  ]),
  ...mutantsOf('redis', 'redis/commands/renew.js', [
    [
      'a renewal counts in full although an earlier one for less may follow it',
      'this.context.requestsByOwner.get(owner)?.pendingRequestThatWouldShorten(leaseMs, executedAt)',
      'undefined',
    ],
  ]),
  ...mutantsOf('redis', 'redis/commands/acquire.js', [
    [
      'an owner acquires after its release',
      'if (this.ownerRequests.isReleasing)',
      'if (false)',
      'The release is repeated until no acquire that was written before its reply can be executed. Only a user of Redis without rights has an acquire written after that, and the servers here know no rights.',
    ],
  ]),
  ...mutantsOf('redis', 'redis/commands/renew.js', [
    [
      'a second copy of a renewal follows a newer one',
      'if (isAgain && !this.renewals.every((renewal) => this.context.requestsByOwner.isLatest(renewal)))',
      'if (false)',
      'The newer one counts by the shorter of both lengths until the copy cannot come any more: its caller waits, and believes in no more.',
    ],
  ]),
  ...mutantsOf('redis', 'port/timing.js', [
    [
      'holders believe for longer than the lease',
      'return startedAt + leaseMs - leaseMargin(leaseMs)',
      'return startedAt + leaseMs + 300',
    ],
  ]),
  ...mutantsOf('redis', 'connection/server-clock.js', [
    [
      'requests may be executed a minute late',
      'return Math.floor(this.serverMs + (now - this.receivedAt))',
      'return Math.floor(this.serverMs + (now - this.receivedAt)) + 60_000',
      'A release is repeated for as long as the request may be executed, so that only more releases are sent.',
    ],
  ]),
  ...mutantsOf('redis', 'redis/ioredis/client.js', [
    [
      'a handshake that is never answered is waited for',
      'watchHandshake(client, settings.clock, settings.commandTimeoutMs)',
      'undefined',
    ],
  ]),
  ...mutantsOf('redis', 'redis/connection.js', [
    [
      'the first commands of a connection that are never answered are waited for',
      'this.client.afterSilence?.(this.commandTimeoutMs, () => this.drop())',
      '() => undefined',
    ],
  ]),
];
