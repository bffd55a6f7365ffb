/** Control characters, and those that end a line or turn the direction of writing. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;
const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Escapes characters that a terminal or a log would obey, as JavaScript does. Keys and replies of servers come from
 * outside, and must not write lines of their own into a log.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (char) => SHORT[char] ?? `\\u${hex(char)}`);
}

function hex(char: string): string {
  return char.charCodeAt(0).toString(16).padStart(4, '0');
}
