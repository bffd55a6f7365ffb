import { spawnSync } from 'node:child_process';
import { beforeAll, expect, it } from '@jest/globals';
import { withoutPackages } from '../support/without-packages.js';

const WITHOUT_CLIENTS = withoutPackages(/^(mysql2|pg$|@grpc\/)/);

/** By its import path: a store, and the package of its client. */
const STORES = [
  ['mysql', "mysqlStore('mysql://localhost/app')", 'npm install mysql2'],
  ['postgres', "postgresStore('postgres://localhost/app')", 'npm install pg'],
  ['etcd', "etcdStore('http://localhost:2379')", 'npm install @grpc/grpc-js'],
] as const;

let said: string;
beforeAll(() => {
  const asks = STORES.map(
    ([path, store]) => `
    const ${path} = await import('nestjs-distributed-lock/${path}');
    const ${path}Locks = new LockService({ store: ${path}.${store}, shutdownGraceMs: 0 });
    ${path}Locks.open();
    await ${path}Locks.acquire('key', { waitMs: 0 }).catch((error) => console.log(error.name, error.message));
    await ${path}Locks.close();`,
  );
  const program = `const { LockService } = await import('nestjs-distributed-lock');${asks.join('')}`;
  const args = ['--import', WITHOUT_CLIENTS, '--input-type=module', '-e', program];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  said = stdout || stderr;
}, 60_000);

it.each(STORES)('%s without the package of its client says which one to install', (path, _store, install) => {
  const [line = ''] = said
    .split('\n')
    .filter((each) => each.includes(`LockConfigurationError ${path}Store needs`));
  expect(line).toContain(install);
  expect(line).toContain('In a bundle leave ');
});
