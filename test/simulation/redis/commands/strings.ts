import { wholeNumber } from '../resp/numbers.js';
import { ErrorReply, OK, type Reply } from '../resp/reply.js';
import { notAnInteger, type Commands, type Surroundings } from './command.js';
import { ExpiryOptions } from './expiry-options.js';
import { msOf } from './keys.js';

export const stringCommands: Commands = {
  get: { arity: 2, run: ([key = ''], { data }) => data.text(key) ?? null },
  strlen: { arity: 2, run: ([key = ''], { data }) => data.text(key)?.length ?? 0 },
  set: { arity: -3, writes: true, needsMemory: true, run: set },
  getex: { arity: -2, writes: true, run: getex },
  incrby: {
    arity: 3,
    writes: true,
    needsMemory: true,
    run: ([key = '', by = ''], { data }) => {
      if (wholeNumber(by) === undefined) throw notAnInteger();
      const text = data.text(key) ?? '0';
      if (wholeNumber(text) === undefined) throw notAnInteger();
      const sum = BigInt(text) + BigInt(by);
      if (BigInt.asIntN(64, sum) !== sum) throw new ErrorReply('ERR increment or decrement would overflow');
      data.put(key, String(sum), data.find(key)?.expiresAt);
      return Number(sum);
    },
  },
};

function set([key = '', value = '', ...words]: readonly string[], { data, micros }: Surroundings): Reply {
  const options = new ExpiryOptions('set', words, ['NX', 'XX', 'GET', 'KEEPTTL']);
  const expiresAt = options.expiresAt(msOf(micros()));
  const replies = options.has('GET') ? (data.text(key) ?? null) : OK;
  const found = data.find(key);
  if (found ? options.has('NX') : options.has('XX')) return options.has('GET') ? replies : null;
  data.put(key, value, options.has('KEEPTTL') ? found?.expiresAt : expiresAt);
  return replies;
}

function getex([key = '', ...words]: readonly string[], { data, micros }: Surroundings): Reply {
  const options = new ExpiryOptions('getex', words, ['PERSIST']);
  const value = data.text(key);
  const entry = data.find(key);
  if (value === undefined || !entry) return null;
  const expiresAt = options.expiresAt(msOf(micros()));
  if (expiresAt === undefined && !options.has('PERSIST')) return value;
  entry.expiresAt = expiresAt;
  data.touch(key);
  return value;
}
