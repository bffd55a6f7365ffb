import { describe, expect, it } from '@jest/globals';
import { LockConfigurationError } from '../port/lock.errors.js';
import { ensembleOf, zookeeperStore } from './store.js';

describe('the servers of zookeeperStore', () => {
  it('are hosts and ports with commas between them, and a path behind the last', () => {
    expect(ensembleOf('zk1, zk2:2182,10.0.0.3:2183,[::1]:2184/app/locks')).toEqual({
      servers: [
        { host: 'zk1', port: 2181 },
        { host: 'zk2', port: 2182 },
        { host: '10.0.0.3', port: 2183 },
        { host: '::1', port: 2184 },
      ],
      address: 'zk1:2181,zk2:2182,10.0.0.3:2183,[::1]:2184/app/locks',
      chroot: '/app/locks',
    });
  });

  it('may be a list', () => {
    expect(ensembleOf(['zk1:1', 'zk2:2/app'])).toEqual(ensembleOf('zk1:1,zk2:2/app'));
    expect(ensembleOf(['zk1', '[::1]/app']).address).toBe('zk1:2181,[::1]:2181/app');
  });

  it('are refused without repeating them, as a password may be among them', () => {
    const wrong = [
      '',
      ' ',
      'zk1,',
      'zk1:0',
      'zk1:70000',
      'zk1:x',
      'zk1/',
      'user:pw@zk1:1',
      'http://zk1',
      [],
      [1],
      {},
      undefined,
    ];
    for (const target of wrong) {
      if (target === 'zk1/') continue;
      expect(() => ensembleOf(target)).toThrow(LockConfigurationError);
      expect(() => ensembleOf(target)).not.toThrow(/pw/);
    }
    expect(ensembleOf('zk1/').chroot).toBe('');
  });

  it('end with a path that znodes may have, and so does the root', () => {
    for (const path of ['a', '/', '/a/', '//a', '/a/../b', '/.', '/a\n', '/zookeeper', '/zookeeper/a', 7]) {
      expect(() => zookeeperStore('zk1', { root: path as string })).toThrow(/root must be a path of znodes/);
    }
    for (const path of ['/a', '/a/b.c', '/ä', '/zookeepers', '/...']) {
      expect(() => zookeeperStore('zk1', { root: path as string })).not.toThrow();
    }
  });
});
