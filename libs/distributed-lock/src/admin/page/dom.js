/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** Control characters, and those that turn the direction of writing: a key may have them, and look like another one. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;

export function visible(text) {
  const codeOf = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
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
