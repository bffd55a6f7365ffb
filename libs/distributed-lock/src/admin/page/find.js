import { ask, Refused } from './api.js';

const PAGE = 50;
/** A page of the store may be empty although more follow. */
const MOST_REQUESTS = 20;

/** Reads about `wanted` keys. @returns the keys, whether there are more, and what to tell of keys that are not among them */
export async function findLocks(prefix, wanted = PAGE) {
  const [found, unreadable] = [new Map(), new Map()];
  let cursor;
  try {
    for (let i = 0; i < MOST_REQUESTS; i++) {
      const page = await ask('locks', { prefix, cursor, limit: 200 });
      // On Redis a key may be in two pages.
      for (const entry of page.entries) found.set(entry.key, entry);
      for (const { key, message } of page.unreadable) unreadable.set(key, message);
      cursor = page.cursor;
      if (cursor === undefined || found.size >= wanted) break;
    }
  } catch (error) {
    if (error instanceof Refused && error.status === 501) return findHere(prefix, error.message);
    throw error;
  }
  return { locks: inOrder(found), isMore: cursor !== undefined, note: noteOf(unreadable) };
}

/** For a store that cannot list: what this process holds, and the one key that was asked for. */
async function findHere(prefix, why) {
  const { client, holds } = await ask('held');
  const found = new Map();
  for (const { key, mode, owner, site, heldMs, validForMs, fencingToken } of holds) {
    if (!key.startsWith(prefix)) continue;
    const { holders = [] } = found.get(key) ?? {};
    const holder = { ...client, owner, site, heldMs };
    found.set(key, { key, mode, holders: [...holders, holder], remainingMs: validForMs, fencingToken });
  }
  if (prefix !== '') {
    const exact = await ask('lock', { key: prefix }).catch(() => undefined);
    if (exact) found.set(exact.key, exact);
  }
  const note = `${why} Shown: what this process holds, and the key that is written above in full.`;
  return { locks: inOrder(found), isMore: false, note };
}

/** One reason is enough: mostly another release has written all of them. */
function noteOf(unreadable) {
  const [[key, message] = []] = unreadable;
  if (key === undefined) return '';
  const others = unreadable.size > 1 ? ` and ${unreadable.size - 1} more` : '';
  return `Cannot be read: ${key}${others}. ${message}`;
}

/** By key, so that rows stay where they are. */
function inOrder(found) {
  return [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}
