// The least that a lock on etcd costs: a transaction that creates a key under the process's lease, and one that deletes it if
// it is still the owner's. Over 8 connections. It cannot wait.
import { bareLock } from '../bare-lock.mjs';
import { connectEtcd, LEASE_SECONDS } from './etcd-api.mjs';

const CONNECTIONS = 8;

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const connections = Array.from({ length: CONNECTIONS }, () => connectEtcd(url));
  await Promise.all(connections.map(({ ask }) => ask('Status')));
  // It outlasts any run, so that nothing keeps it alive.
  const { ID: lease } = await connections[0].ask('LeaseGrant', { TTL: LEASE_SECONDS });
  return bareLock(connections, {
    async take({ ask }, [name, owner]) {
      const [key, value] = [Buffer.from(name), Buffer.from(owner)];
      const reply = await ask('Txn', {
        compare: [{ target: 'CREATE', key, createRevision: 0 }],
        success: [{ requestPut: { key, value, lease } }],
      });
      return reply.succeeded;
    },
    giveBack({ ask }, [name, owner]) {
      const [key, value] = [Buffer.from(name), Buffer.from(owner)];
      return ask('Txn', {
        compare: [{ target: 'VALUE', key, value }],
        success: [{ requestDeleteRange: { key } }],
      });
    },
  });
}
