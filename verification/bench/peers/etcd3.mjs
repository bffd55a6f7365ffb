import { Etcd3 } from 'etcd3';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = new Etcd3({ hosts: url });
  await client.maintenance.status();
  return { run: (key, work) => client.lock(key).do(async () => work()) };
}
