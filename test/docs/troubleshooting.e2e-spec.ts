import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SRC = `${ROOT}/libs/distributed-lock/src`;

/** The source of all messages: the library's code without specs, escapes of quotes undone. */
const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'))
  .map((file) => readFileSync(`${SRC}/${file}`, 'utf8').replaceAll("\\'", "'"))
  .join('\n');

/** The literal parts of a message: the text between names, numbers and the joints where code puts it together. */
function partsOf(message: string): string[] {
  return message
    .split(/…|[:;,.] |" /)
    .map((part) => part.replaceAll(/^[" ]+|[" ]+$/g, ''))
    .filter((part) => /\w{4}/.test(part));
}

/** Without the marks that markdown needs. */
const plain = (heading: string): string => heading.replaceAll(/\\([\\`*_<>[\]])/g, '$1').replaceAll('`', '');

describe('the page of errors', () => {
  const page = readFileSync(`${ROOT}/docs/troubleshooting.md`, 'utf8');
  const [, list = ''] = /^## Messages that say what to write$([^]*?)^## /m.exec(page) ?? [];
  const headings = [...page.matchAll(/^### (.+)$/gm), ...list.matchAll(/^- (.+)$/gm)];
  const messages = headings.map(([, heading = '']) => plain(heading));

  it('has a section for each kind of message', () => {
    expect(messages.length).toBeGreaterThan(25);
    expect(messages.every((message) => partsOf(message).length > 0)).toBe(true);
  });

  it('says what each message of an HTTP response means', () => {
    const source = readFileSync(`${SRC}/locked/lock-http.ts`, 'utf8');
    const status = (kind: string) => new RegExp(`DEFAULTS.*\\b${kind}: (\\d+)`).exec(source)?.[1];
    const sent = [...source.matchAll(/^  (LOCK_\w+): \['(\w+)', '(.+)'\]/gm)];
    const rows = [...page.matchAll(/^\| (\d{3}): (.+?) +\| `(\w+)`/gm)].map(([, ...row]) => row);
    expect(rows).toEqual(sent.map(([, code, kind = '', message]) => [status(kind), message, code]));
  });

  it.each(messages)('quotes what the code says: %s', (message) => {
    expect(partsOf(message).filter((part) => !sources.includes(part))).toEqual([]);
  });
});
