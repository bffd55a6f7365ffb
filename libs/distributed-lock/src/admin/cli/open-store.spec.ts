import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { readCommandLine } from './command-line.js';
import { openStore } from './open-store.js';
import { withoutSecrets } from './run.js';
import { systemClock } from '../../common/clock.js';

const folder = mkdtempSync(join(tmpdir(), 'open-store-'));
writeFileSync(join(folder, 'locks.db'), '');

const open = (store: string, ...words: string[]) => {
  const command = readCommandLine(['ls', '--store', store, ...words], {});
  if (command === 'help') throw new Error('It is no command.');
  return openStore(command);
};
const CONTEXT = { clock: systemClock, keyPrefix: '', watchdogTimeoutMs: 30_000 };

describe('a URL', () => {
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each([
    ['redis://ops:p%40ss@db:6390', 'redis', 'db:6390/0'],
    ['rediss://db', 'redis', 'db:6379/0'],
    ['mysql://ops:p%40ss@db/app', 'mysql', 'db:3306/app'],
    ['etcd://ops:p%40ss@e1:2379,e2:2380', 'etcd', 'e1:2379,e2:2380'],
    ['etcds://e1', 'etcd', 'e1:2379'],
    ['zookeeper://ops:p%40ss@z1:2181,z2/app', 'zookeeper', 'z1:2181,z2:2181/app'],
  ])('%s opens the store %s at %s', async (url, name, address) => {
    const store = (await open(url)).create(CONTEXT);
    expect([store.name, store.address]).toEqual([name, address]);
    await store.close();
  });

  it.each(['postgres://ops@db/app', 'postgresql://db/app'])('%s opens PostgreSQL', async (url) => {
    expect(await open(url, '--table', 'app.locks')).toHaveProperty('create');
    await expect(open(url, '--table', 'a b')).rejects.toThrow('table must be a name');
  });

  it.each([
    ['redis://db?retryStrategy=x', '"retryStrategy"'],
    ['rediss://db?tls=false', 'tls=false'],
    ['postgres://db/app?schema=app', '"schema"'],
    ['postgres://db/app?tls=true', '"tls"'],
    ['mysql://db/app?useSSL=true', '"useSSL"'],
    ['etcd://e1:2379?tls=true', '"tls"'],
    ['etcd://e1:2379/?cacert=x', '"cacert"'],
    ['etcd://e1?x=y,e2', '"x"'],
    ['zookeeper://z1:2181?ssl=true', '"ssl"'],
    ['zookeeper://z1:2181/app?ssl=true', '"ssl"'],
    ['sqlite:locks.db?mode=ro', '"mode"'],
  ])('%s is refused with the name of what it cannot follow', async (url, name) => {
    await expect(open(url)).rejects.toThrow(name);
  });

  it.each(['redis', 'postgres', 'mysql', 'etcd', 'zookeeper'])(
    'of %s with a stray %% in its password is refused, and not repeated',
    async (scheme) => {
      const opening = open(`${scheme}://ops:hunter2%zz@db/1`);
      await expect(opening).rejects.toThrow('%25');
      await expect(opening).rejects.not.toThrow('hunter2');
    },
  );

  it('without a scheme, or with one of no store, is refused with those that there are', async () => {
    for (const url of ['localhost:6379', 'mongodb://db', 'http://db', '/tmp/locks.db', 'toString://x']) {
      await expect(open(url)).rejects.toThrow(/^--store is a URL that begins with one of redis, rediss, /);
    }
  });

  it('of a file that is not there makes none', async () => {
    await expect(open(`sqlite:${folder}/typo.db`)).rejects.toThrow(/^There is no file ".*typo\.db"\.$/);
  });
});

describe('a message', () => {
  it.each([
    'redis://ops:p%40ss@db',
    'mysql://ops:p@ss@db',
    'redis://db?password=p%40ss',
    'postgres://db/app?user=ops&sslpassword=p%40ss',
  ])('has no password of %s in any form', (url) => {
    expect(withoutSecrets(`${url} and ${decodeURIComponent(url)}`, url)).not.toMatch(/p(%40|@)ss/);
  });

  it('stays as it is without a password', () => {
    expect(withoutSecrets('connect ECONNREFUSED', 'redis://localhost')).toBe('connect ECONNREFUSED');
  });
});
