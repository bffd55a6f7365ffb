/** A JSON text with ASCII characters only, because the column of MySQL takes no others. */
export function asciiText(text: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(text).replace(/[^\x20-\x7e]/g, escaped);
}

/** Reads a text that `asciiText` has made. @returns `undefined` for any other text, because anybody may write a row */
export function textIn(ascii: string): string | undefined {
  try {
    const text: unknown = JSON.parse(ascii);
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}
