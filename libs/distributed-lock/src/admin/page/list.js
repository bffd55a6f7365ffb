import { byId, make, setText } from './dom.js';
import { factsOf, holderText } from './words.js';

const rows = new Map();
const contentions = new Map();

export function countContention(key) {
  // Keep the map small, because there may be any number of keys.
  if (contentions.size < 1000 || contentions.has(key)) contentions.set(key, (contentions.get(key) ?? 0) + 1);
}

/** Changes what has changed, and leaves the focus where it is. @param onRelease called with a lock; none where the page only reads */
export function showLocks(locks, onRelease) {
  const list = byId('locks');
  const keys = new Set(locks.map(({ key }) => key));
  for (const [key, row] of rows) {
    if (keys.has(key)) continue;
    if (row.item.contains(document.activeElement)) byId('locks-title').focus();
    row.item.remove();
    rows.delete(key);
  }
  locks.forEach((lock, index) => {
    const row = rows.get(lock.key) ?? addRow(lock.key, onRelease);
    row.lock = lock;
    if (list.children[index] !== row.item) list.insertBefore(row.item, list.children[index] ?? null);
    const holders = lock.holders.map(holderText);
    setText(row.holders, holders.length > 0 ? holders.join('\n') : 'nobody holds it');
    setText(row.facts, factsOf(lock, contentions.get(lock.key) ?? 0));
    if (row.button) row.button.hidden = lock.holders.length === 0;
  });
}

function addRow(key, onRelease) {
  const row = { item: make('li', ''), holders: make('p', '', 'holders'), facts: make('p', '', 'soft') };
  const heading = make('h3', '');
  heading.append(make('bdi', key));
  row.item.append(heading, row.holders, row.facts);
  if (onRelease) {
    row.button = make('button', 'Release …', 'danger');
    row.button.type = 'button';
    row.button.setAttribute('aria-label', `Release ${key} by force`);
    row.button.addEventListener('click', () => onRelease(row.lock));
    row.item.append(row.button);
  }
  rows.set(key, row);
  return row;
}
