// Doc comments as Markdown: names of exports become links, tags become sentences, and examples follow them.
import ts from 'typescript';

/**
 * @param {ts.Node} node
 * @param {(name: string) => string | undefined} linkTo the target of a name, if it has one
 * @returns {{ prose: string, tags: string }}
 */
export function commentOf(node, linkTo) {
  const doc = ts.getJSDocCommentsAndTags(node).findLast(ts.isJSDoc);
  if (!doc) return { prose: '', tags: '' };
  const prose = linkNames(ts.getTextOfJSDocComment(doc.comment) ?? '', linkTo);
  const tags = (doc.tags ?? []).filter(({ tagName }) => tagName.text in WORDS);
  const sentences = tags.map((tag) => `- ${sentence(tag, linkTo)}`).join('\n');
  return { prose, tags: [sentences, ...examplesIn(doc)].filter(Boolean).join('\n\n') };
}

/** The compiler takes a decorator in an example for a tag. An example that begins with an import is a whole file. */
function examplesIn(doc) {
  const text = doc.getText().replaceAll(/^\s*\*(?!\/) ?/gm, '');
  const examples = [...text.matchAll(/^@example\n(```ts\n[^]*?^```)$/gm)].map(([, code]) => code);
  return examples.map((code) => code.replace(/^```ts\n(?!import )/, '```ts fragment\n'));
}

const WORDS = { param: '', returns: '**Returns** ', throws: '**Throws** ', see: '**See** ' };

function sentence(tag, linkTo) {
  const word = tag.tagName.text;
  // The compiler takes the part of an address before its colon for a name.
  const text = (
    word === 'see' ? tag.getText().replace(/^@see\s+/, '') : (ts.getTextOfJSDocComment(tag.comment) ?? '')
  )
    .replace(/\n(\s*\*)?\s*/g, ' ')
    .trim();
  const subject = word === 'param' ? `\`${tag.name.getText()}\`: ` : '';
  return WORDS[word] + subject + linkNames(word === 'throws' ? inCode(text) : text, linkTo);
}

const inCode = (text) => text.replaceAll(/(?<!`)\b[A-Z]\w+Error\b(?!`)/g, '`$&`');

/** Exports that are named as a mode or an option is. Only a call of one, such as `shared(…)`, is a link to it. */
const ALSO_OPTIONS = /^`(shared|exclusive|permits)`$/;

/** Links pages, and each name of an export that stands alone in backticks. */
function linkNames(text, linkTo) {
  const withPages = text.replaceAll(/(?<![`(/])docs\/([\w/-]+\.md(#[\w-]+)?)/g, '[$1]($1)');
  return withPages.replaceAll(/(?<![`[])`@?(\w+)(?:\([^`()]*\))?`(?![`\]])/g, (code, name) => {
    const target = ALSO_OPTIONS.test(code) ? undefined : linkTo(name);
    return target ? `[${code}](${target})` : code;
  });
}
