import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';

const SRC = fileURLToPath(new URL('../../../libs/distributed-lock/src', import.meta.url));
const KNOWN = ['example', 'param', 'returns', 'see', 'throws'];

/** One part of a doc comment, as an editor shows it: what is before the tags, or one tag. */
interface Part {
  readonly tag: string | undefined;
  readonly text: string;
}

function partsOf(comment: ts.JSDoc): readonly Part[] {
  const parts = [comment, ...(comment.tags ?? [])].map((it) => ({
    tag: ts.isJSDoc(it) ? undefined : it.tagName.text,
    text: ts.getTextOfJSDocComment(it.comment) ?? '',
  }));
  return parts;
}

/** What is broken in the doc comments of this source text. */
function brokenIn(file: string, source: string): readonly string[] {
  const broken: string[] = [];
  const tell = (comment: ts.JSDoc): void => {
    for (const { tag, text } of partsOf(comment)) {
      if (tag !== undefined && !KNOWN.includes(tag)) broken.push(`${file}: a tag @${tag}`);
      // A fence that another tag has torn apart, and a name in backticks, too.
      if (text.split('`').length % 2 === 0) broken.push(`${file}: an odd number of backticks in ${text}`);
    }
  };
  const visit = (node: ts.Node): void => {
    for (const it of ts.getJSDocCommentsAndTags(node)) if (ts.isJSDoc(it)) tell(it);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true));
  return [...new Set(broken)];
}

describe('the doc comments of the library', () => {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'),
  );

  it('are shown whole by an editor: TypeScript finds no tag in an example, and no torn fence', () => {
    expect(files.length).toBeGreaterThan(100);
    expect(files.flatMap((file) => brokenIn(file, readFileSync(`${SRC}/${file}`, 'utf8')))).toEqual([]);
  });

  it('would not be with a decorator behind a blank', () => {
    const example = (code: string): string =>
      `/**\n * @example\n * \`\`\`ts\n * ${code}\n * \`\`\`\n */\nconst a = 1;`;
    expect(brokenIn('a.ts', example("class A {@Locked('a') async b() {}}"))).toEqual([]);
    expect(brokenIn('a.ts', example("class A { @Locked('a') async b() {} }"))).toContain(
      'a.ts: a tag @Locked',
    );
  });
});
