import { describe, expect, it } from '@jest/globals';
import { followedOrRefused } from '../../../../test/support/followed-or-refused.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { connectionOptions, MYSQL_PARAMETERS } from './target.js';

describe('mysqlStore', () => {
  followedOrRefused({
    parameters: MYSQL_PARAMETERS,
    values: {
      ssl: 'true',
      compress: 'true',
      insecureAuth: '1',
      enableCleartextPlugin: 'false',
      connectAttributes: '{"a":"b"}',
      maxPreparedStatements: '5',
    },
    optionsOf: (query) => connectionOptions(`mysql://u@h/app?${query}`),
  });

  it.each<[string, unknown]>([
    ['ssl=true', {}],
    ['ssl=1', {}],
    ['ssl={"rejectUnauthorized":true}', { rejectUnauthorized: true }],
    ['ssl=Amazon%20RDS', 'Amazon RDS'],
    ['ssl=false', false],
  ])('reads ?%s', (query, ssl) => {
    expect(connectionOptions(`mysql://h/app?${query}`)).toMatchObject({ ssl });
  });

  it.each([
    ['ssl as another word', '?ssl=require', 'It takes true'],
    ['an empty ssl', '?ssl=', 'It takes true'],
    ['the mode of the MySQL shell', '?ssl-mode=REQUIRED', 'For TLS write ?ssl=true'],
    ['the mode of JDBC', '?useSSL=true', 'For TLS write ?ssl=true'],
    ['a % that is no text', '%zz', 'Write a % as %25'],
    ['a cut password', '?hunter2@h', 'encodeURIComponent'],
    ['a #', '#hunter2', 'encodeURIComponent'],
  ])('refuses a URL with %s', (_, end, message) => {
    const make = () => connectionOptions(`mysql://u:hunter2@h/app${end}`);
    expect(make).toThrow(LockConfigurationError);
    expect(make).toThrow(message);
    expect(make).not.toThrow('hunter2');
  });

  it('refuses options by which other drivers ask for TLS', () => {
    expect(() => connectionOptions({ host: 'h', sslmode: 'require' })).toThrow('the option "sslmode"');
    expect(() => connectionOptions({ uri: 'mysql://h/a?ssl=true', ssl: undefined })).not.toThrow();
    expect(() => connectionOptions({ uri: 'mysql://h/a?ssl=true', ssl: false })).toThrow(
      'an option ssl that is none',
    );
  });
});
