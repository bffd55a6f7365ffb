import { describe, expect, it } from '@jest/globals';
import { releaseProblems } from '../../tools/check-release.mjs';

const right = {
  tag: 'v1.2.3',
  repository: 'https://example.org/locks',
  manifest: { version: '1.2.3', repository: { url: 'git+https://example.org/locks.git' } },
  changelog: '# Changelog\n\n## 1.2.3 (2026-01-01)\n',
};

describe('a release', () => {
  it('goes out when its tag, its version, its changelog and its repository agree', () => {
    expect(releaseProblems(right)).toEqual([]);
  });

  it.each([
    ['a tag of another version', { tag: 'v1.2.4' }, 'tag v1.2.3'],
    ['a version without its part of the changelog', { changelog: '## Unreleased\n' }, '## 1.2.3'],
    ['another repository', { repository: 'https://example.org/fork' }, 'provenance'],
    ['a package that names no repository', { manifest: { version: '1.2.3' } }, 'docs/release.md'],
  ])('is stopped by %s', (_, change, advice) => {
    expect(releaseProblems({ ...right, ...change })).toEqual([expect.stringContaining(advice)]);
  });
});
