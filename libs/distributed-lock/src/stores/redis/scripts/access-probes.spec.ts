import { describe, expect, it } from '@jest/globals';
import { whatIsDenied } from '../connection/redis.errors.js';
import { isTooOld, rightFor } from './access-probes.js';

/** As real servers answered: 6.2.14, 7.0.15 and 7.2.4, to a client and to a script. */
const COMMAND = [
  "NOPERM this user has no permissions to run the 'get' command or its subcommand",
  "@user_script: 1: The user executing the script can't run this command or subcommand",
  "NOPERM this user has no permissions to run the 'get' command",
  "ERR The user executing the script can't run this command or subcommand",
  "NOPERM User u has no permissions to run the 'get' command",
  "ERR ACL failure in script: User u has no permissions to run the 'get' command",
];
const KEY = [
  'NOPERM this user has no permissions to access one of the keys used as arguments',
  "@user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments",
  "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
  'NOPERM No permissions to access a key',
  'ERR ACL failure in script: No permissions to access a key',
];
const CHANNEL = [
  'NOPERM this user has no permissions to access one of the channels used as arguments',
  "@user_script: 1: The user executing the script can't publish to the channel mentioned in the command",
  "ERR The user executing the script can't publish to the channel mentioned in the command",
  'NOPERM No permissions to access a channel',
  'ERR ACL failure in script: No permissions to access a channel',
];
/** Raised by a script of ours that was refused a command in its middle. */
const RAISED = [
  "ERR Error running script (call to f_367e752ad94165fc08331e93d4b15c5bf77cdc5e): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand",
  "ERR The user executing the script can't run this command or subcommand script: 367e752ad94165fc08331e93d4b15c5bf77cdc5e, on @user_script:1.",
  'ERR ACL failure in script: No permissions to access a key script: 131b5f2ed4a6e4f431cc21897ae043d687859f08, on @user_script:1.',
];
const OTHERS = [
  '',
  'ERR syntax error',
  "ERR unknown command 'eval', with args beginning with: ",
  '@user_script: 1: Unknown Redis command called from Lua script',
  'ERR value is not an integer or out of range',
  "READONLY You can't write against a read only replica.",
  "OOM command not allowed when used memory > 'maxmemory'.",
  'Script attempted to access a non local key in a cluster node',
];

describe('what a server says', () => {
  it.each(COMMAND)('of a command: %s', (text) => {
    expect(rightFor(['get', 'a'], text, '')).toBe('+get');
    expect(rightFor(['pubsub', 'numsub', 'a'], text, '')).toBe('+pubsub|numsub');
  });

  it.each(KEY)('of a key: %s', (text) => {
    expect(rightFor(['get', 'lock:a'], text, 'lock:')).toBe('~lock:*');
  });

  it.each(CHANNEL)('of a channel: %s', (text) => {
    expect(rightFor(['publish', 'redisson_rwlock:{lock:a}'], text, 'lock:')).toBe('&redisson_*lock:*');
    expect(rightFor(['publish', 'nest_lock_notify:a'], text, 'lock:')).toBe('&nest_lock_notify:*');
  });

  it.each(RAISED)('in the middle of a script: %s', (text) => {
    expect(whatIsDenied(text)).toBeDefined();
  });

  it.each(OTHERS)('of anything else names no right: %s', (text) => {
    expect(rightFor(['get', 'a'], text, '')).toBeUndefined();
  });

  it('before 6.2 tells that it is too old, and of nothing else', () => {
    // 5.0.6; later ones answer with nothing, as there is no such key.
    expect(isTooOld(['set', 'a', '', 'XX', 'GET'], 'ERR syntax error')).toBe(true);
    expect(isTooOld(['set', 'a', '', 'XX', 'GET'], '')).toBe(false);
    expect(isTooOld(['get', 'a'], 'ERR syntax error')).toBe(false);
  });
});

describe('the pattern for a name', () => {
  const denied = KEY[0] as string;
  const pattern = (name: string, keyPrefix: string) => rightFor(['get', name], denied, keyPrefix);

  it('covers all locks with the prefix, and nothing else', () => {
    const names = ['l:a', '{l:a}:timeout', 'nest_lock_queue:{l:a}', 'redisson_sc:{l:a}'];
    expect(names.map((name) => pattern(name, 'l:'))).toEqual([
      '~l:*',
      '~{l:*',
      '~nest_lock_*l:*',
      '~redisson_*l:*',
    ]);
  });

  it('without a prefix keeps the beginnings of our own', () => {
    const names = ['a', '{a}:timeout', 'nest_lock_queue:{a}', 'redisson_sc:{a}'];
    expect(names.map((name) => pattern(name, ''))).toEqual(['~*', '~{*', '~nest_lock_*', '~redisson_*']);
  });

  it('takes a prefix at its word', () => {
    expect(pattern('a*[b]:c', 'a*[b]:')).toBe(String.raw`~a\*\[b\]:*`);
    expect(pattern('{l}:a:timeout', '{l}:')).toBe('~{l}:*');
  });
});
