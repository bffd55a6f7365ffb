import { describe, expect, it } from '@jest/globals';
import { readCommandLine, USAGE, WrongUse } from './command-line.js';

const STORE = { LOCK_STORE: 'redis://localhost' };
const read = (line: string, env: Record<string, string> = STORE) =>
  readCommandLine(
    line.split(' ').filter((word) => word !== ''),
    env,
  );

describe('the command line', () => {
  it('names a command, a key and options in any order', () => {
    expect(read('--json inspect --prefix shop: goods:42 --timeout 300')).toEqual({
      name: 'inspect',
      key: 'goods:42',
      store: 'redis://localhost',
      prefix: 'shop:',
      table: undefined,
      root: undefined,
      json: true,
      yes: false,
      timeoutMs: 300,
    });
  });

  it('prefers --store to the variable', () => {
    expect(read('ls --store mysql://db/app')).toMatchObject({ store: 'mysql://db/app' });
  });

  it.each(['', '--help', 'ls -h'])('shows its use for "%s"', (line) => {
    expect(read(line)).toBe('help');
  });

  it.each([
    ['inspct goods:42', /no command "inspct"; did you mean inspect\?/],
    ['--json', /^Name a command: ls/],
    ['inspect', /^inspect needs a key: /],
    ['release', /^release needs a key: /],
    ['inspect goods 42', /takes one key/],
    ['ls --stroe redis://x', /'--stroe'.*--help/],
    ['ls --timeout soon', /--timeout is a number of ms from 10/],
    ['ls --timeout 5', /--timeout is a number of ms from 10/],
    ['ls --prefix', /--prefix.*--help/],
  ])('refuses "%s" and says what to write', (line, message) => {
    expect(() => read(line)).toThrow(WrongUse);
    expect(() => read(line)).toThrow(message);
  });

  it('asks for a store where none is named', () => {
    expect(() => read('ls', {})).toThrow(/--store redis:\/\/localhost, or the variable LOCK_STORE/);
  });

  it('fits a terminal of 110 columns', () => {
    expect(USAGE.split('\n').filter((line) => line.length > 110)).toEqual([]);
  });
});
