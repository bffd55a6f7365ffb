import { describe, expect, it } from '@jest/globals';
import { demoOptions, DEMO } from '../demo/options.js';
import { withStore } from '../stores/with-store.js';
import { readCommandLine } from './read-command-line.js';

const read = (line: string, env: Record<string, string> = {}) =>
  readCommandLine(DEMO, line.split(' ').filter(Boolean), env);

describe('the command line of the demo', () => {
  it('needs nothing, and takes a value behind a blank or an equals sign', () => {
    const byDefault = { 'no-lock': false, instances: 1, kill: false, stock: 100, buyers: 1000 };
    expect(read('')).toEqual(byDefault);
    expect(read('--instances 4 --kill --stock=7 --store postgres')).toEqual({
      ...byDefault,
      instances: 4,
      kill: true,
      stock: 7,
      store: 'postgres',
    });
  });

  it('passes over a second -- before the options, as a script in a script needs it', () => {
    expect(read('-- --instances 4')).toMatchObject({ instances: 4 });
  });

  it.each(['--help', '-h', '--instances 2 --help'])('knows %j as a call for help', (line) => {
    expect(read(line)).toBeUndefined();
  });

  it.each([
    ['--instances 1000', '--instances must be a whole number from 1 to 8; it is "1000". Each is a process'],
    ['--instances 0', 'from 1 to 8; it is "0"'],
    ['--instances -1', 'from 1 to 8; it is "-1"'],
    ['--instances abc', 'from 1 to 8; it is "abc"'],
    ['--instances', 'from 1 to 8; it has no value'],
    ['--instances --kill', 'from 1 to 8; it is "--kill"'],
    ['--buyers 1e3', 'from 1 to 999999; it is "1e3"'],
    [
      '--store postgress',
      '--store must be memory, redis, postgres, mysql, etcd or zookeeper; it is "postgress". Did you mean postgres?',
    ],
    ['--store Redis', 'it is "Redis". Did you mean redis?'],
    ['--store cassandra', 'it is "cassandra".'],
    ['--store', '--store must be memory, redis, postgres, mysql, etcd or zookeeper; it has no value.'],
    ['--store --kill', 'it is "--kill".'],
    ['--no-lock=yes', '--no-lock takes no value; it was given "yes"'],
    ['--instnces 2', 'There is no option --instnces. Did you mean --instances?'],
    ['--nolock', 'Did you mean --no-lock?'],
    ['-k', 'There is no option -k. There are --no-lock, --instances'],
    ['--everything', 'There is no option --everything. There are --no-lock, --instances'],
    ['--__proto__', 'There is no option --__proto__.'],
    ['4', '"4" is not an option. Options start with two dashes.'],
    ['stock', '"stock" is not an option. Did you mean --stock?'],
  ])('refuses %j with what is allowed, and the usage', (line, problem) => {
    expect(() => read(line)).toThrow(problem);
    expect(() => read(line)).toThrow('--buyers <n>');
  });

  it('says how to write an option that npm took for its own', () => {
    expect(() => read('', { npm_config_kill: 'true' })).toThrow('npm run demo -- --kill');
    expect(() => read('', { npm_config_yes: 'true' })).not.toThrow();
  });

  it.each([
    ['--kill', '--kill needs --instances 2 or more'],
    ['--kill --instances 2 --no-lock', 'with --no-lock there is none'],
  ])('refuses %j, which makes no sense together', (line, problem) => {
    expect(() => demoOptions(read(line)!)).toThrow(problem);
  });

  it.each([
    ['', {}, undefined],
    ['', { STORE: 'postgres' }, 'postgres'],
    ['--instances 2', {}, 'redis'],
    ['--instances 2', { STORE: '' }, 'redis'],
    ['--instances 2', { STORE: 'mysql' }, 'mysql'],
    ['--instances 2 --store postgres', { STORE: 'mysql' }, 'postgres'],
    ['--store memory', { STORE: 'mysql' }, 'memory'],
  ])('with %j and the environment %j picks the store %j', (line, env, store) => {
    expect(withStore(DEMO, read(line)!, env)['STORE']).toBe(store);
  });

  it.each([
    ['--instances 2 --store memory', {}],
    ['--instances 4', { STORE: 'memory' }],
  ])('refuses %j with the environment %j: the memory of one process cannot be shared', (line, env) => {
    const pick = () => withStore(DEMO, read(line)!, env);
    expect(pick).toThrow('The store memory holds locks within one process');
    expect(pick).toThrow('--store <name>');
  });
});
