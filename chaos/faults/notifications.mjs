import { LATE_TIMER_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { during } from './during.mjs';
import { networksHit } from './networks-hit.mjs';

export const NOTIFICATION_FAULTS = [
  {
    name: 'pushes-lost',
    says: 'no notification arrives',
    traffic: { leaseMs: LONG_LEASE_MS },
    goalMs: LOOK_MS + LATE_TIMER_MS,
    recoverMs: LOOK_MS + SLACK_MS,
    async inject(world) {
      await during(
        networksHit(world),
        world.random.between(1000, 3000),
        (link) => (link.replies.loses = world.store.isNotification),
        (link) => (link.replies.loses = () => false),
      );
    },
  },
];
