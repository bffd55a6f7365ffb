import { describe, expect, it } from '@jest/globals';
import { systemChance } from '../../../time/chance.js';
import { systemClock } from '../../../time/clock.js';
import { MysqlHandleDatabase } from './mysql.handle.js';

describe('an error of a query function', () => {
  const database = new MysqlHandleDatabase({ query: async () => [] }, 'nest_lock', systemClock, systemChance);
  const reasonOf = (errno: number) =>
    database.failureOf(Object.assign(new Error('Too many connections'), { errno })).reason;

  it('leaves the outcome unknown, because an earlier statement of the request may have been committed', () => {
    expect(reasonOf(1040)).toBe('unknown');
  });

  it('that has rolled back its statement is no reason to doubt', () => {
    expect(reasonOf(1213)).toBe('unready');
  });
});
