import { Status, wrongType } from '../resp/reply.js';
import type { Commands } from './command.js';

const PONG = new Status('PONG');

/** Commands on no key, which scripts may call, and the one that scripts ask of a list: no history has a list. */
export const otherCommands: Commands = {
  time: {
    arity: 1,
    run: (_, { micros }) => {
      const now = micros();
      return [String(Math.floor(now / 1_000_000)), String(Math.floor(now % 1_000_000))];
    },
  },
  publish: {
    arity: 3,
    run: ([channel = '', message = ''], { channels }) => channels.publish(channel, message),
  },
  'pubsub|numsub': {
    arity: -2,
    run: (names, { channels }) => names.flatMap((name) => [name, channels.count(name)]),
  },
  lindex: {
    arity: 3,
    run: ([key = ''], { data }) => {
      if (data.find(key)) throw wrongType();
      return null;
    },
  },
  ping: { arity: -1, run: ([text]) => text ?? PONG },
  echo: { arity: 2, run: ([text = '']) => text },
};
