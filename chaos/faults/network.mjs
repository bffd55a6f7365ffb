import { BACK_GOAL_MS, GOAL_MS, LEASE_MS, SLACK_MS } from '../constants.mjs';
import { Random } from '../random.mjs';
import { cut, slow } from './during.mjs';
import { networksHit } from './networks-hit.mjs';

const BACK_MS = 1000 + SLACK_MS;
/** Linux waits this long before it first sends a lost segment again. */
const RESEND_MS = 200;

export const NETWORK_FAULTS = [
  {
    name: 'blackhole',
    says: 'the network swallows everything, also new connections, for a while',
    stopsStore: true,
    goalMs: BACK_GOAL_MS,
    recoverMs: Math.max(BACK_MS, LEASE_MS + SLACK_MS),
    inject: (world) => cut(networksHit(world), world.random.between(0.3, 2) * LEASE_MS),
  },
  {
    name: 'latency',
    says: 'each way takes 20 to 300 ms, changing',
    goalMs: GOAL_MS,
    recoverMs: LEASE_MS + SLACK_MS,
    stopsStore: true,
    async inject(world) {
      const random = new Random(world.random.next());
      const late = () => random.between(20, 300);
      await slow(networksHit(world), world.random.between(1000, 3000), late);
    },
  },
  {
    name: 'packet-loss',
    says: 'one packet in ten is lost: it comes again 200 ms later or more, and all behind it wait',
    recoverMs: LEASE_MS + SLACK_MS,
    stopsStore: true,
    async inject(world) {
      const random = new Random(world.random.next());
      const late = () => {
        let ms = 0;
        for (let again = RESEND_MS; random.chance(0.1); again *= 2) ms += again;
        return ms;
      };
      await slow(networksHit(world), world.random.between(1000, 3000), late);
    },
  },
];
