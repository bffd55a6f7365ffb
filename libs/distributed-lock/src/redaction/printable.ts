/**
 * What nobody sees, or what a terminal obeys: control characters, those that end a line, turn the direction of writing, or are not
 * shown, and halves of characters. With them a key may look like another one. `admin/page/dom.js` has the same list.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Escapes characters that a terminal or a log would obey, as JavaScript does. Keys and replies of servers come from
 * outside, and must not write lines of their own into a log.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (char) => SHORT[char] ?? escaped(char));
}

function escaped(char: string): string {
  const hex = (char.codePointAt(0) as number).toString(16);
  return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`;
}
