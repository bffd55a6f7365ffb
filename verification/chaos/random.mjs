/** Numbers that look random and are the same for the same seed (mulberry32, by Tommy Ettinger). */
export class Random {
  #state;

  /** @param {number | string} seed */
  constructor(seed) {
    this.#state = hash(String(seed));
  }

  /** From 0 up to, and without, 1. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** @param {number} from @param {number} to */
  between(from, to) {
    return from + (to - from) * this.next();
  }

  /** @param {number} probability */
  chance(probability) {
    return this.next() < probability;
  }

  /** @template T @param {readonly T[]} list @returns {T} */
  pick(list) {
    return list[Math.floor(this.next() * list.length)];
  }
}

/** FNV-1a. @param {string} text */
function hash(text) {
  let value = 0x811c9dc5;
  for (const char of text) value = Math.imul(value ^ char.codePointAt(0), 0x01000193);
  return value;
}
