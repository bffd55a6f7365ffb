// etcd's own lock: the server's RPC Lock, which waits, and Unlock. Its owner is a lease, so each caller at work has one.
import { connectEtcd, LEASE_SECONDS } from './etcd-api.mjs';

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const { ask } = connectEtcd(url);
  /** No caller uses these leases now. They outlast any run, so nothing keeps them alive. */
  const leases = [await grant()];
  return {
    async run(key, work) {
      const lease = leases.pop() ?? (await grant());
      try {
        const { key: held } = await ask('Lock', { name: Buffer.from(key), lease });
        try {
          return await work();
        } finally {
          await ask('Unlock', { key: held });
        }
      } finally {
        leases.push(lease);
      }
    },
  };

  async function grant() {
    return (await ask('LeaseGrant', { TTL: LEASE_SECONDS })).ID;
  }
}
