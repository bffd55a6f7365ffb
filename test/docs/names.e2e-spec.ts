import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const src = `${root}/libs/distributed-lock/src`;
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) =>
  /(?<!\.spec|\.generated)\.(ts|lua)$/.test(file),
);
const sources = files.map((file) => readFileSync(`${src}/${file}`, 'utf8'));
/** Every file and its folder, with and without `.ts`. */
const paths = files.flatMap((file) => [file, file.replace(/\.ts$/, ''), file.replace(/\/[^/]+$/, '')]);

const isFile = (name: string) => paths.some((path) => `/${path}`.endsWith(`/${name}`));
const isWritten = (name: string) => sources.some((text) => new RegExp(`\\b${name}\\b`).test(text));

/** `Class.member`: the file that declares the class has the member. */
function isMember(name: string): boolean {
  const [owner, member] = name.split('.');
  const source = sources.find((text) => new RegExp(`\\b(class|interface) ${owner}\\b`).test(text));
  return source !== undefined && new RegExp(`\\b${member}\\b`).test(source);
}

function isInSource(name: string): boolean {
  if (/\.(ts|lua)$|\//.test(name)) return isFile(name);
  return name.includes('.') ? isMember(name) : isWritten(name);
}

const PAGES = ['life-of-a-lock.md', 'document-stores.md', 'decisions/0012-where-the-time-goes.md'];

describe('a page about the code', () => {
  it.each(PAGES)('names what exists: %s', (page) => {
    const text = readFileSync(`${root}/docs/${page}`, 'utf8').replace(/```[^]*?```/g, '');
    const code = [...text.matchAll(/`([^`\s]+)`/g)].map(([, name]) => name as string);
    const names = code.filter((name) =>
      /\.(ts|lua)$|^[\w-]+(\/[\w.-]+)+$|^[A-Z][a-z]\w+\.\w+$|^([A-Z][a-z]+){2,}$/.test(name),
    );
    expect(names.length).toBeGreaterThan(5);
    expect(names.filter((name) => !isInSource(name))).toEqual([]);
  });
});

/** Pages for users, which name options, stores, errors and methods. */
const GUIDES = [
  'first-lock.md',
  'glossary.md',
  'production.md',
  'when-not-to-lock.md',
  ...readdirSync(`${root}/docs/recipes`).map((page) => `recipes/${page}`),
];

/** Names of Nest, of an ORM and of the recipes. */
const OTHERS = new Set([
  'close',
  'createApplicationContext',
  'enableShutdownHooks',
  'runMigrations',
  'typeormQuery',
  'useGlobalInterceptors',
]);

describe('a guide', () => {
  it.each(GUIDES)('names only options, stores, errors and methods that exist: %s', (page) => {
    const text = readFileSync(`${root}/docs/${page}`, 'utf8').replace(/```[^]*?```/g, '');
    const code = [...text.matchAll(/`([^`]+)`/g)].map(([, name]) => name as string);
    const names = code.flatMap(
      (it) => it.match(/\b[a-zA-Z]+(Ms|Acks|Store|Error|Indicator|Commit|Signal)\b|\b\w+(?=\()/g) ?? [],
    );
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !isWritten(name) && !OTHERS.has(name))).toEqual([]);
  });
});
