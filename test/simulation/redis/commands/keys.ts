import { SortedSet } from '../data/sorted-set.js';
import type { Value } from '../data/keyspace.js';
import { OK, Status } from '../resp/reply.js';
import { wholeNumber } from '../resp/numbers.js';
import { notAnInteger, type Commands, type Surroundings } from './command.js';

export const keyCommands: Commands = {
  del: {
    arity: -2,
    writes: true,
    run: (keys, { data }) => keys.filter((key) => data.find(key) && data.delete(key)).length,
  },
  exists: { arity: -2, run: (keys, { data }) => keys.filter((key) => data.find(key)).length },
  type: { arity: 2, run: ([key = ''], { data }) => new Status(typeOf(data.find(key)?.value)) },
  pttl: { arity: 2, run: ([key = ''], surroundings) => remaining(key, surroundings) },
  ttl: {
    arity: 2,
    run: ([key = ''], surroundings) => {
      const ms = remaining(key, surroundings);
      return ms < 0 ? ms : Math.floor((ms + 500) / 1000);
    },
  },
  pexpire: { arity: -3, writes: true, run: ([key = '', ms = ''], it) => expire(key, ms, 1, it) },
  expire: { arity: -3, writes: true, run: ([key = '', seconds = ''], it) => expire(key, seconds, 1000, it) },
  flushall: {
    arity: -1,
    writes: true,
    run: (_, { data }) => {
      data.clear();
      return OK;
    },
  },
  dbsize: { arity: 1, run: (_, { data }) => data.size },
};

function typeOf(value: Value | undefined): string {
  if (value === undefined) return 'none';
  if (typeof value === 'string') return 'string';
  return value instanceof SortedSet ? 'zset' : 'hash';
}

function remaining(key: string, { data, micros }: Surroundings): number {
  const entry = data.find(key);
  if (!entry) return -2;
  return entry.expiresAt === undefined ? -1 : Math.max(0, entry.expiresAt - msOf(micros()));
}

function expire(key: string, time: string, unit: number, { data, micros }: Surroundings): number {
  const length = wholeNumber(time);
  if (length === undefined) throw notAnInteger();
  const entry = data.find(key);
  if (!entry) return 0;
  if (length <= 0) {
    data.delete(key);
    return 1;
  }
  entry.expiresAt = msOf(micros()) + length * unit;
  data.touch(key);
  return 1;
}

export function msOf(micros: number): number {
  return Math.floor(micros / 1000);
}
