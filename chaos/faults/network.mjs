import { setTimeout as pause } from 'node:timers/promises';
import { LEASE_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { Random } from '../random.mjs';
import { networksHit } from './networks-hit.mjs';

const BACK_MS = 1000 + SLACK_MS;
const RECOVER_MS = LOOK_MS + SLACK_MS;
/** What Linux waits before it sends a lost segment again, at first. */
const RESEND_MS = 200;

/** Does something to all connections, also to new ones, for a while. */
async function during(world, networks, ms, change, undo) {
  for (const network of networks) {
    network.onLink = change;
    network.open.forEach(change);
  }
  await pause(ms);
  for (const network of networks) {
    network.onLink = () => undefined;
    network.open.forEach(undo);
  }
}

const pass = (link) => {
  link.requests.pass();
  link.replies.pass();
};

export const NETWORK_FAULTS = [
  {
    name: 'blackhole',
    says: 'the network swallows everything, also new connections, for a while',
    stopsStore: true,
    recoverMs: Math.max(BACK_MS, LEASE_MS + SLACK_MS),
    async inject(world) {
      const networks = networksHit(world);
      await during(
        world,
        networks,
        world.random.between(0.3, 2) * LEASE_MS,
        (link) => link.vanish(),
        (link) => link.reset(),
      );
    },
  },
  {
    name: 'latency',
    says: 'each way takes 20 to 300 ms, changing',
    recoverMs: LEASE_MS + SLACK_MS,
    stopsStore: true,
    async inject(world) {
      const random = new Random(world.random.next());
      const late = () => random.between(20, 300);
      await during(
        world,
        networksHit(world),
        world.random.between(1000, 3000),
        (link) => {
          link.requests.pass(late);
          link.replies.pass(late);
        },
        pass,
      );
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
      await during(
        world,
        networksHit(world),
        world.random.between(1000, 3000),
        (link) => {
          link.requests.pass(late);
          link.replies.pass(late);
        },
        pass,
      );
    },
  },
  {
    name: 'pushes-lost',
    says: 'no message of pub/sub arrives',
    traffic: { leaseMs: LONG_LEASE_MS },
    recoverMs: RECOVER_MS,
    async inject(world) {
      const isMessage = (chunk) => chunk.includes('\r\nmessage\r\n');
      await during(
        world,
        networksHit(world),
        world.random.between(1000, 3000),
        (link) => (link.replies.loses = isMessage),
        (link) => (link.replies.loses = () => false),
      );
    },
  },
];
