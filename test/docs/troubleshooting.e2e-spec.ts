import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

describe('the page of errors', () => {
  it('has the status, the message and the code of each HTTP response', () => {
    const page = read('docs/troubleshooting.md');
    const source = read('libs/distributed-lock/src/locked/client-errors.ts');
    const status = (kind: string) => new RegExp(`DEFAULTS.*\\b${kind}: (\\d+)`).exec(source)?.[1];
    const sent = [...source.matchAll(/^  (LOCK_\w+): \{\n    http: '(\w+)',[^}]*?    message: '(.+)',\n/gm)];
    const rows = [...page.matchAll(/^\| (\d{3}): (.+?) +\| `(\w+)`/gm)].map(([, ...row]) => row);
    expect(rows.length).toBeGreaterThan(0);
    expect(rows).toEqual(sent.map(([, code, kind = '', message]) => [status(kind), message, code]));
  });
});
