import { describe, expect, it } from '@jest/globals';
import { withoutSecrets } from './without-secrets.js';

describe('an address that is shown', () => {
  it.each([
    ['redis://u:pass@h:1/2', 'redis://h:1/2'],
    ['redis://u:p@ss@h', 'redis://h'],
    ['redis://h?password=pass', 'redis://h'],
    ['u:pass@h:1', 'h:1'],
    ['redis://u:pa?ss@h', 'redis://…'],
    ['redis://u:pa#ss@h', 'redis://…'],
  ])('has no part of its password: %s', (url, shown) => {
    expect(withoutSecrets(url)).toBe(shown);
  });
});
