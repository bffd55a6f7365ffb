import type { Keyspace } from '../data/keyspace.js';
import { wholeNumber } from '../resp/numbers.js';
import { ErrorReply, MapReply } from '../resp/reply.js';
import { notAnInteger, wrongNumberOfArguments, type Commands } from './command.js';

export const hashCommands: Commands = {
  hset: {
    arity: -4,
    writes: true,
    needsMemory: true,
    run: ([key = '', ...fields], { data }) => hset(key, fields, data),
  },
  hget: { arity: 3, run: ([key = '', field = ''], { data }) => data.hash(key)?.get(field) ?? null },
  hmget: {
    arity: -3,
    run: ([key = '', ...fields], { data }) => {
      const hash = data.hash(key);
      return fields.map((field) => hash?.get(field) ?? null);
    },
  },
  hgetall: { arity: 2, run: ([key = ''], { data }) => new MapReply([...(data.hash(key) ?? [])].flat()) },
  hkeys: { arity: 2, run: ([key = ''], { data }) => [...(data.hash(key)?.keys() ?? [])] },
  hlen: { arity: 2, run: ([key = ''], { data }) => data.hash(key)?.size ?? 0 },
  hexists: {
    arity: 3,
    run: ([key = '', field = ''], { data }) => Number(data.hash(key)?.has(field) ?? false),
  },
  hdel: {
    arity: -3,
    writes: true,
    run: ([key = '', ...fields], { data }) => {
      const hash = data.hash(key);
      const deleted = fields.filter((field) => hash?.delete(field)).length;
      if (deleted > 0) data.touch(key);
      return deleted;
    },
  },
  hincrby: {
    arity: 4,
    writes: true,
    needsMemory: true,
    run: ([key = '', field = '', by = ''], { data }) => {
      if (wholeNumber(by) === undefined) throw notAnInteger();
      const text = data.hash(key)?.get(field) ?? '0';
      if (wholeNumber(text) === undefined) throw new ErrorReply('ERR hash value is not an integer');
      const sum = BigInt(text) + BigInt(by);
      hset(key, [field, String(sum)], data);
      return Number(sum);
    },
  },
};

/** @returns how many fields are new */
function hset(key: string, fields: readonly string[], data: Keyspace): number {
  if (fields.length % 2 === 1) throw wrongNumberOfArguments('hset');
  const found = data.hash(key);
  const hash = found ?? new Map<string, string>();
  const before = hash.size;
  for (let i = 0; i < fields.length; i += 2) hash.set(fields[i] as string, fields[i + 1] as string);
  if (found) data.touch(key);
  else data.put(key, hash);
  return hash.size - before;
}
