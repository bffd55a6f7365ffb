/** Finds or fetches each server that the suites of SQL stores, etcd and ZooKeeper need; fails where one cannot be had. */
import { SERVER_NAMES, whyMissing } from '#servers';

for (const name of SERVER_NAMES) {
  const missing = whyMissing(name, { large: true });
  if (missing !== undefined) process.exitCode = 1;
  console.log(`${name}: ${missing ?? 'ready'}`);
}
