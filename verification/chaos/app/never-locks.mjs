import { randomUUID } from 'node:crypto';
import { NEVER } from 'rxjs';

/**
 * A store that grants everything to everybody at once: the criminal by whom the checker is tested.
 *
 * @returns {import('nestjs-distributed-lock').LockStoreFactory}
 */
export function neverLocks() {
  let token = 0;
  return {
    create: ({ clock }) => ({
      name: 'never-locks',
      clientId: randomUUID(),
      commandTimeoutMs: 1,
      notifications$: NEVER,
      async acquire({ leaseMs, tokens }) {
        const first = token + 1;
        token += tokens;
        const validUntil = clock.now() + leaseMs;
        return { kind: 'granted', token: first, lastToken: token, validUntil, waiting: 0, confirmed: true };
      },
      renew: async (renewals) =>
        renewals.map(({ leaseMs }) => ({ kind: 'renewed', validUntil: clock.now() + leaseMs, waiting: 0 })),
      release: async () => 'released',
      inspect: async () => null,
      forceRelease: async () => 'not held',
      announceTakeover: async () => undefined,
      close: async () => undefined,
    }),
  };
}
