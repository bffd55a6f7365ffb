import { SortedSet, type Scored } from '../data/sorted-set.js';
import { score, wholeNumber } from '../resp/numbers.js';
import { Double, ErrorReply, ScoredReply, type Reply } from '../resp/reply.js';
import { notAnInteger, syntaxError, type Commands, type Surroundings } from './command.js';

export const sortedSetCommands: Commands = {
  zadd: { arity: -4, writes: true, needsMemory: true, run: zadd },
  zrem: {
    arity: -3,
    writes: true,
    run: ([key = '', ...members], { data }) => {
      const set = data.sortedSet(key);
      const removed = members.filter((member) => set?.delete(member)).length;
      if (removed > 0) data.touch(key);
      return removed;
    },
  },
  zscore: {
    arity: 3,
    run: ([key = '', member = ''], { data }) => {
      const found = data.sortedSet(key)?.scoreOf(member);
      return found === undefined ? null : new Double(found);
    },
  },
  zcard: { arity: 2, run: ([key = ''], { data }) => data.sortedSet(key)?.size ?? 0 },
  zrange: {
    arity: -4,
    run: ([key = '', first = '', last = '', ...words], { data }) => {
      if (words.some((word) => word.toUpperCase() !== 'WITHSCORES')) throw syntaxError();
      const [from, to] = [wholeNumber(first), wholeNumber(last)];
      if (from === undefined || to === undefined) throw notAnInteger();
      const all = data.sortedSet(key)?.inOrder() ?? [];
      const start = from < 0 ? Math.max(0, all.length + from) : from;
      const end = to < 0 ? all.length + to : to;
      return listed(all.slice(start, end + 1), words.length > 0);
    },
  },
  zrangebyscore: { arity: -4, run: zrangebyscore },
  zremrangebyscore: {
    arity: 4,
    writes: true,
    run: ([key = '', min = '', max = ''], { data }) => {
      const isWithin = range(min, max);
      const set = data.sortedSet(key);
      const gone = set?.inOrder().filter(isWithin) ?? [];
      for (const [member] of gone) set?.delete(member);
      if (gone.length > 0) data.touch(key);
      return gone.length;
    },
  },
};

function zadd([key = '', ...words]: readonly string[], { data }: Surroundings): Reply {
  const flags = new Set<string>();
  while (['NX', 'XX'].includes(words[0]?.toUpperCase() ?? ''))
    flags.add((words.shift() as string).toUpperCase());
  if (words.length === 0 || words.length % 2 === 1) throw syntaxError();
  if (flags.size > 1) throw new ErrorReply('ERR XX and NX options at the same time are not compatible');
  const given: Scored[] = [];
  for (let i = 0; i < words.length; i += 2) {
    const value = score(words[i] as string);
    if (value === undefined) throw new ErrorReply('ERR value is not a valid float');
    given.push([words[i + 1] as string, value]);
  }
  const found = data.sortedSet(key);
  const set = found ?? new SortedSet();
  const before = set.size;
  for (const [member, value] of given) {
    const isThere = set.scoreOf(member) !== undefined;
    if (flags.has('XX') ? isThere : !(flags.has('NX') && isThere)) set.set(member, value);
  }
  if (found) data.touch(key);
  else if (set.size > 0) data.put(key, set);
  return set.size - before;
}

function zrangebyscore(
  [key = '', min = '', max = '', ...words]: readonly string[],
  { data }: Surroundings,
): Reply {
  let withScores = false;
  let [offset, count] = [0, Infinity];
  for (let i = 0; i < words.length; i++) {
    const word = (words[i] as string).toUpperCase();
    if (word === 'WITHSCORES') withScores = true;
    else if (word === 'LIMIT' && words.length > i + 2) {
      const [skip, most] = [wholeNumber(words[i + 1] as string), wholeNumber(words[i + 2] as string)];
      if (skip === undefined || most === undefined) throw notAnInteger();
      [offset, count] = [skip, most < 0 ? Infinity : most];
      i += 2;
    } else throw syntaxError();
  }
  const isWithin = range(min, max);
  const found = data.sortedSet(key)?.inOrder().filter(isWithin) ?? [];
  return listed(offset < 0 ? [] : found.slice(offset, offset + count), withScores);
}

function range(min: string, max: string): (it: Scored) => boolean {
  const [low, high] = [bound(min), bound(max)];
  return ([, value]) =>
    (low.isOpen ? value > low.value : value >= low.value) &&
    (high.isOpen ? value < high.value : value <= high.value);
}

function bound(text: string): { readonly value: number; readonly isOpen: boolean } {
  const isOpen = text.startsWith('(');
  const value = score(isOpen ? text.slice(1) : text);
  if (value === undefined) throw new ErrorReply('ERR min or max is not a float');
  return { value, isOpen };
}

function listed(found: readonly Scored[], withScores: boolean): Reply {
  return withScores ? new ScoredReply(found) : found.map(([member]) => member);
}
