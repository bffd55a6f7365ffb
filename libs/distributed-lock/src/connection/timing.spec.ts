import { describe, expect, it } from '@jest/globals';
import { connectionName } from './timing.js';

const since = new Date(0);

describe('the name of a connection', () => {
  it('says which application on which host it belongs to, and which process', () => {
    const client = { application: 'shop', host: 'pod-7', process: 4711, since };
    expect(connectionName(client)).toBe('locks/shop/pod-7/4711');
  });

  it('has only characters that every server takes, and no more than it keeps', () => {
    const client = {
      application: '@acme/a name\nwith lines, 名 and far more',
      host: `${'deployment-'.repeat(9)}7d9f8b6c5-x2x8p`,
      process: 4_194_304,
      since,
    };
    const name = connectionName(client);
    expect(name).toMatch(/^[\w./-]{1,63}$/);
    expect(name).toContain('acme-a-name');
    expect(name).toContain('7d9f8b6c5-x2x8p/4194304');
    expect(connectionName({ ...client, application: '名' })).toMatch(/^locks\/unnamed\//);
  });

  it('tells nothing about a client that does not say who it is', () => {
    expect(connectionName(undefined)).toBe('nestjs-distributed-lock');
  });
});
