import { ask, Refused } from './api.js';

/** At first the store is looked through in long pages, one after another, and then by a short one each time. */
const LONG_PAGE = 1000;
const SHORT_PAGE = 200;
/** If there are more locks, only the oldest are kept. */
const MAX_KEPT = 1000;
/** Proxies and Node refuse longer addresses. */
const MAX_QUERY = 4000;

/**
 * The locks whose keys begin with a text. The store finds them page by page, and those that are shown are read again each time. So an
 * open page costs a large store no more than a small one.
 */
export class Search {
  #prefix;
  #cursor;
  #turn = 0;
  /** By key: the lock, and in which turn through the store it was seen. */
  #known = new Map();
  #unreadable = new Map();
  #note = '';
  /** Whether the whole store was looked through. */
  isWhole = false;

  constructor(prefix) {
    this.#prefix = prefix;
  }

  /** The oldest first. Locks of unknown age come last: they are held for less than a second, or by another library. */
  get locks() {
    return [...this.#known.values()].sort(oldestFirst).map(({ lock }) => lock);
  }

  /** Whether there may be more locks than are kept. */
  get isCut() {
    return this.#known.size >= MAX_KEPT;
  }

  get note() {
    return [this.#note, unreadableText(this.#unreadable)].filter(Boolean).join(' ');
  }

  /** Reads the next page of the store. @returns the keys that were read */
  async lookOn() {
    const limit = this.isWhole ? SHORT_PAGE : LONG_PAGE;
    const cursor = this.#cursor;
    // After a failure the next turn begins at the first page.
    this.#cursor = undefined;
    try {
      const page = await ask('locks', { prefix: this.#prefix, cursor, limit });
      if (cursor === undefined) this.#turn += 1;
      this.#take(page);
      this.#cursor = page.cursor;
      if (page.cursor === undefined) this.#onEnd();
      return new Set(page.entries.map(({ key }) => key));
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 501) throw error;
      await this.#findHere(error.message);
      return new Set(this.#known.keys());
    }
  }

  /** Reads keys anew, to see at once that one has come free. */
  async readAgain(keys) {
    for (const part of inParts(keys)) {
      const page = await ask('locks', new URLSearchParams(part.map((key) => ['key', key])));
      for (const key of part) this.#known.delete(key);
      this.#take(page);
    }
  }

  #take({ entries, unreadable }) {
    for (const lock of entries) {
      const before = this.#known.get(lock.key);
      const [owner, since] = [lock.holders[0]?.owner, firstSince(lock)];
      // Two readings of one age differ by a little, and rows must not change places for that.
      const isSame = before?.since !== undefined && before.owner === owner;
      this.#known.set(lock.key, { lock, owner, since: isSame ? before.since : since, turn: this.#turn });
      this.#unreadable.delete(lock.key);
    }
    for (const { key, message } of unreadable) this.#unreadable.set(key, { message, turn: this.#turn });
    if (this.#known.size <= MAX_KEPT) return;
    for (const { lock } of [...this.#known.values()].sort(oldestFirst).slice(MAX_KEPT))
      this.#known.delete(lock.key);
  }

  /** Called after the last page of the store. A key that was not seen in this turn is free by now. */
  #onEnd() {
    this.isWhole = true;
    for (const seen of [this.#known, this.#unreadable]) {
      for (const [key, { turn }] of seen) if (turn !== this.#turn) seen.delete(key);
    }
  }

  /** For a store that cannot list: what this process holds, and the one key that was asked for. */
  async #findHere(why) {
    const { client, holds } = await ask('held');
    const found = new Map();
    for (const { key, mode, owner, site, heldMs, since, validForMs, fencingToken } of holds) {
      if (!key.startsWith(this.#prefix)) continue;
      const { holders = [] } = found.get(key) ?? {};
      const holder = { ...client, owner, site, heldMs, since };
      found.set(key, { key, mode, holders: [...holders, holder], remainingMs: validForMs, fencingToken });
    }
    if (this.#prefix !== '') {
      const exact = await ask('lock', { key: this.#prefix }).catch(() => undefined);
      if (exact) found.set(exact.key, exact);
    }
    this.#known.clear();
    this.#take({ entries: [...found.values()], unreadable: [] });
    this.isWhole = true;
    this.#note = `${why} Shown: what this process holds, and the key that is written above in full.`;
  }
}

function firstSince({ holders }) {
  return holders.reduce(
    (first, { since }) => (first === undefined || since < first ? since : first),
    undefined,
  );
}

function oldestFirst(a, b) {
  const [one, other] = [a.since ?? '~', b.since ?? '~'];
  if (one !== other) return one < other ? -1 : 1;
  return (a.lock.fencingToken ?? 0) - (b.lock.fencingToken ?? 0) || (a.lock.key < b.lock.key ? -1 : 1);
}

/** Splits keys into parts, each of which fits into one address. */
function inParts(keys) {
  const parts = [];
  let room = 0;
  for (const key of keys) {
    const length = encodeURIComponent(key).length + 5;
    if (length > room) {
      parts.push([]);
      room = MAX_QUERY;
    }
    parts.at(-1).push(key);
    room -= length;
  }
  return parts;
}

/** Names one key and its reason. That is enough, because mostly another release of this library has written all of them. */
function unreadableText(unreadable) {
  const [[key, { message } = {}] = []] = unreadable;
  if (key === undefined) return '';
  const others = unreadable.size > 1 ? ` and ${unreadable.size - 1} more` : '';
  return `Cannot be read: ${key}${others}. ${message}`;
}
