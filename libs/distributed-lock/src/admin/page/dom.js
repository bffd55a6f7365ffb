export const byId = (id) => document.getElementById(id);

/** Characters that nobody sees: a key with one of them looks like another key. `common/redaction.ts` has the same list. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

export function visible(text) {
  const codeOf = (char) => {
    const hex = char.codePointAt(0).toString(16);
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`;
  };
  return String(text).replace(UNPRINTABLE, codeOf);
}

/** All text gets into the page here, as text and never as HTML. Writes nothing that is there already. */
export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function make(tag, text, className = '') {
  const element = document.createElement(tag);
  setText(element, text);
  if (className) element.className = className;
  return element;
}
