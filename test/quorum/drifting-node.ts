import type { Clock } from '../../libs/distributed-lock/src/common/clock.js';
import type { LockStoreFactory } from '../../libs/distributed-lock/src/port/lock-store.js';
import { leaseValidity } from '../../libs/distributed-lock/src/port/timing.js';

/** A node whose leases run by a clock of its own, `speed` times as fast as that of its clients. */
export function drifting(inner: LockStoreFactory, speed: number): LockStoreFactory {
  return {
    create(context) {
      const { clock } = context;
      const own: Clock = {
        now: () => clock.now() * speed,
        after: (ms, task) => clock.after(ms / speed, task),
        interval: (ms) => clock.interval(ms / speed),
      };
      const node = inner.create({ ...context, clock: own });
      return Object.assign(Object.create(node) as typeof node, {
        // As a remote store does: validity is counted by the clock of the client.
        acquire: async (ask: Parameters<typeof node.acquire>[0]) => {
          const sentAt = clock.now();
          const reply = await node.acquire(ask);
          return reply.kind === 'granted'
            ? { ...reply, validUntil: leaseValidity(sentAt, ask.leaseMs) }
            : reply;
        },
      });
    },
  };
}
