const COLOURS = 6;
const byId = new Map();

/** The n-th instance that this page has seen has the n-th colour, for as long as the page is open. */
export function indexOf(id) {
  if (!byId.has(id)) byId.set(id, byId.size);
  return byId.get(id);
}

export function colourOf(id) {
  return id === null ? '--soft' : `--i${indexOf(id) % COLOURS}`;
}

export function nameOf(id) {
  return id === null ? 'unknown' : `instance ${indexOf(id) + 1}`;
}

export function chip(id, text = nameOf(id), tag = 'span') {
  const element = document.createElement(tag);
  element.className = 'chip';
  element.style.setProperty('--of', `var(${colourOf(id)})`);
  element.textContent = text;
  return element;
}

/** Each leads to the page of that instance. */
export function showInstances({ instances, instance }) {
  const chips = instances.map(({ id, url }) => {
    const link = chip(id, undefined, 'a');
    link.href = url;
    if (id === instance) link.append(' (this page)');
    return link;
  });
  const list = document.querySelector('#instances');
  const shown = [...list.children].map((it) => it.outerHTML).join('');
  if (shown !== chips.map((it) => it.outerHTML).join('')) list.replaceChildren(...chips);
}
