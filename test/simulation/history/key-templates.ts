/** `key12` is rendered from the text `key` and the value 12. */
const PARTS = /^([a-z]+)(\d+)$/i;

interface Argument {
  readonly ids: readonly (string | undefined)[];
  readonly items: readonly { readonly id: string | undefined }[];
}

/** The first argument of a method whose keys are rendered from it. */
export function argumentsFor(keys: readonly string[]): readonly [Argument] {
  const ids = keys.map((key) => PARTS.exec(key)?.[2]);
  return [{ ids, items: ids.map((id) => ({ id })) }];
}

/**
 * The templates of these keys, one for each, or one over the list of them. `undefined` for keys that are no text and a number, and for
 * a list whose texts differ.
 *
 * @param place of the argument: its name, or the source of a handler
 */
export function templatesOf(
  keys: readonly string[],
  how: 'templates' | 'list',
  place: string,
): readonly string[] | undefined {
  const texts = keys.map((key) => PARTS.exec(key)?.[1]);
  const [text] = texts;
  if (texts.includes(undefined)) return undefined;
  if (how === 'templates') return texts.map((it, i) => `${it}<${place}.ids.${i}>`);
  return texts.every((it) => it === text) ? [`${text}<${place}.items[].id>`] : undefined;
}
