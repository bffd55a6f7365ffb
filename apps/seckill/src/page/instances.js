const COLOURS = 8;
/** The instances that were killed and still hold a lock. */
let silent = new Set();

export function colourOf(id) {
  return id === null ? '--soft' : `--i${(id - 1) % COLOURS}`;
}

/** The same on every page, in the order of their start. */
export function nameOf(id) {
  return id === null ? 'unknown' : `instance ${id}`;
}

/** Whether an instance was killed, and still holds a lock. */
export function isSilent(id) {
  return silent.has(id);
}

export function chip(id, text = nameOf(id), tag = 'span') {
  const element = document.createElement(tag);
  element.className = 'chip';
  element.classList.toggle('silent', isSilent(id));
  element.style.setProperty('--of', `var(${colourOf(id)})`);
  element.textContent = text;
  return element;
}

/** Each leads to the page of that instance. */
export function showInstances({ instances, instance }) {
  silent = new Set(instances.filter(({ isAlive }) => !isAlive).map(({ id }) => id));
  const chips = instances.map(({ id, url, isAlive }) => {
    if (!isAlive) return chip(id, `${nameOf(id)}: no answer`);
    const link = chip(id, undefined, 'a');
    link.href = url;
    if (id !== instance) return link;
    const here = document.createElement('span');
    here.className = 'here';
    here.textContent = '(this page)';
    link.append(here);
    link.setAttribute('aria-current', 'page');
    return link;
  });
  const list = document.querySelector('#instances');
  const shown = [...list.children].map((it) => it.outerHTML).join('');
  if (shown !== chips.map((it) => it.outerHTML).join('')) list.replaceChildren(...chips);
}
