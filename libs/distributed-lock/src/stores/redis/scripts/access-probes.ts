import type { Chance } from '../../../time/chance.js';
import { whatIsDenied } from '../connection/redis.errors.js';
import { notificationChannel, redisKeys } from '../redis.keys.js';
import { permitsKey } from '../redisson/redisson-names.js';

/** The message by which Redisson announces a release, in case somebody has subscribed to all channels. */
const RELEASED = '0';

/** The words of a command that changes nothing and that no subscriber receives. */
export type Probe = readonly [command: string, ...words: string[]];

/**
 * Every command of the scripts, on keys and channels of each kind that a lock has.
 *
 * They change nothing: the names are new ones, and where a command would create its key it is written so that the server
 * refuses it. The server checks the rights first.
 */
export function scriptProbes(keyPrefix: string, isCluster: boolean, chance: Chance): readonly Probe[] {
  const name = `${keyPrefix}rights:${chance.uuid()}`;
  const [lock, queue, waiterOptions, token, channel] = redisKeys(name, 'lock');
  const permits = permitsKey(name);
  return [
    ['type', lock],
    ['exists', lock],
    ['del', lock],
    ['pexpire', lock, '1'],
    ['pttl', lock],
    ['incrby', lock, 'no number'],
    ['hset', lock, 'field', 'value', 'field without value'],
    ['hget', waiterOptions, 'field'],
    ['hmget', lock, 'field'],
    ['hgetall', lock],
    ['hdel', waiterOptions, 'field'],
    ['hkeys', lock],
    ['hlen', lock],
    ['hexists', lock, 'field'],
    ['get', token],
    ['strlen', lock],
    ['getex', token],
    ['set', token, '', 'XX', 'GET'],
    ['zadd', queue, 'XX', '0', 'member'],
    ['zrem', queue, 'member'],
    ['zscore', queue, 'member'],
    ['zrange', queue, '0', '0'],
    ['zcard', permits],
    ['zrangebyscore', permits, '0', '0'],
    ['zremrangebyscore', permits, '0', '0'],
    // Each script is given the channel as one of its keys.
    ['exists', channel],
    ['del', channel],
    ['publish', channel, RELEASED],
    ['publish', notificationChannel('rights'), RELEASED],
    ['pubsub', 'numsub', channel],
    ...(isCluster
      ? ([
          ['spublish', channel, RELEASED],
          ['pubsub', 'shardnumsub', channel],
        ] as const)
      : []),
    ['time'],
  ];
}

/** The words of an ACL rule that `probe` lacks, by the server's answer; `undefined` if it lacks none. */
export function rightFor(probe: Probe, answer: string, keyPrefix: string): string | undefined {
  const [command, name = ''] = probe;
  switch (whatIsDenied(answer)) {
    case 'command':
      return command === 'pubsub' ? `+pubsub|${name}` : `+${command}`;
    case 'key':
      return `~${patternOf(name, keyPrefix)}`;
    case 'channel':
      return `&${patternOf(name, keyPrefix)}`;
    default:
      return undefined;
  }
}

/** Redis learned `SET … GET` in 6.2, the oldest that is supported. An older one does not understand its last word. */
export function isTooOld(probe: Probe, answer: string): boolean {
  return probe[0] === 'set' && answer.includes('syntax error');
}

/** All names that start as this one does, for any lock with this prefix: as SECURITY.md gives them. */
function patternOf(name: string, keyPrefix: string): string {
  const locks = `${keyPrefix.replace(/[*?[\]\\]/g, '\\$&')}*`;
  if (name.startsWith(keyPrefix) && keyPrefix !== '') return locks;
  if (name.startsWith('nest_lock_notify:')) return 'nest_lock_notify:*';
  for (const start of ['nest_lock_', 'redisson_'])
    if (name.startsWith(start)) return `${start}*${locks}`.replace('**', '*');
  return name.startsWith('{') ? `{${locks}` : locks;
}
