const NAME = String.raw`[A-Za-z_$][\w$]*(?:\[\d*\])?(?:\.[\w$]+(?:\[\d*\])?)*`;
/** No letter, digit or mark before it. After one, `:id`, `#id` and `$id` are parts of a word. */
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

/** A part of a template that reads as a placeholder and is plain text. */
interface ForeignPlaceholder {
  readonly text: string;
  readonly position: number;
  /** The whole template, written with `<…>`. */
  readonly instead: string;
}

/**
 * The first part of a template that reads as a placeholder of another tool. As plain text it would be the same for all
 * values, which would share one lock.
 */
export function foreignPlaceholder(template: string): ForeignPlaceholder | undefined {
  // The same length, so that positions stay.
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
