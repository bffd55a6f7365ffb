// Finds placeholders of other tools in a template, such as `{id}` and `:id`. The template is refused when it is compiled, because
// they would be constant text here, and all values would share one lock.

const NAME = String.raw`[A-Za-z_$][\w$]*(?:\[\d*\])?(?:\.[\w$]+(?:\[\d*\])?)*`;
/**
 * Matches only at the start of a word: behind a letter, a digit or one of these signs, `:id`, `#id` and `$id` are just a part of
 * the text.
 */
const ALONE = String.raw`(?<![\p{L}\p{M}\p{N}\p{Extended_Pictographic}_>)}\]%~.!-])`;

/**
 * Placeholders of other tools: `${id}` (JavaScript, here without its backticks), `{id}` and `{{id}}`, `:id` (routes,
 * SQL), `#id` (Spring), `$id` and `$1`, `%s`. The group is the name, if there is one.
 */
const FOREIGN = [
  String.raw`\$\{\s*(${NAME})?[^}]*\}?`,
  String.raw`#?\{+\s*(${NAME}|\d+)(?:\|\w+)*\s*\}+`,
  `${ALONE}[:#](${NAME})`,
  String.raw`${ALONE}\$(${NAME}|\d+)`,
  String.raw`%[sdioj](?![\dA-Za-z])()`,
];
const ANY = new RegExp(FOREIGN.join('|'), 'gu');

/** A part of a template that looks like a placeholder of another tool, but is plain text here. */
interface ForeignPlaceholder {
  readonly text: string;
  readonly position: number;
  /** The whole template, rewritten with `<…>`, for the message. */
  readonly instead: string;
}

/**
 * Finds the first part of a template that looks like a placeholder of another tool. It would be constant text, so all values
 * would share one lock.
 */
export function foreignPlaceholder(template: string): ForeignPlaceholder | undefined {
  // Blank out the real placeholders with as many characters, so that positions stay the same.
  const plain = template.replace(/<[^<>]*>/g, (placeholder) => '>'.repeat(placeholder.length));
  const matches = [...plain.matchAll(ANY)];
  const [first] = matches;
  if (!first) return undefined;
  let instead = '';
  let end = 0;
  for (const match of matches) {
    const [text, ...names] = match;
    instead += `${template.slice(end, match.index)}<${names.find(Boolean) ?? 'name'}>`;
    end = match.index + text.length;
  }
  return { text: first[0], position: first.index, instead: instead + template.slice(end) };
}
