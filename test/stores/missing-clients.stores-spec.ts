import { spawnSync } from 'node:child_process';
import { expect, it } from '@jest/globals';
import { withoutPackages } from '../support/without-packages.js';

const WITHOUT_CLIENTS = withoutPackages(/^(mysql2|pg$|@grpc\/)/);

function failureOf(store: string, path: string): string {
  const program = `
    const { LockService } = await import('nestjs-distributed-lock');
    const stores = await import('nestjs-distributed-lock/${path}');
    const locks = new LockService({ store: stores.${store}, shutdownGraceMs: 0 });
    locks.open();
    await locks.acquire('key', { waitMs: 0 }).catch((error) => console.log(error.name, error.message));
    await locks.close();`;
  const args = ['--import', WITHOUT_CLIENTS, '--input-type=module', '-e', program];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  return stdout || stderr;
}

it.each([
  ["mysqlStore('mysql://localhost/app')", 'mysql', 'npm install mysql2'],
  ["postgresStore('postgres://localhost/app')", 'postgres', 'npm install pg'],
  ["etcdStore('http://localhost:2379')", 'etcd', 'npm install @grpc/grpc-js'],
])('%s without the package of its client says which one to install', (store, path, says) => {
  expect(failureOf(store, path)).toMatch(`LockConfigurationError ${store.split('(')[0]} needs the package`);
  expect(failureOf(store, path)).toContain(says);
});
